import { expect, it } from "vitest";
import { container } from "../lab/container";

const of = (value: unknown, loaded?: number): { get: () => Promise<() => unknown>; loaded?: number } => ({
  get: () => Promise.resolve(() => value),
  ...(loaded === undefined ? {} : { loaded }),
});

type Scope = Parameters<ReturnType<typeof container>["init"]>[0];

async function load(scope: Scope, notebooks: Scope = { "@jupyterlab/cells": { "4.4.9": of("") } }): Promise<unknown> {
  const made = container(["@jupyterlab/notebook"], "@jupyterlab/cells", (require, module) => {
    module.exports = { uses: require("@jupyterlab/notebook") };
  });
  made.init({ ...scope, ...notebooks });
  return (await made.get())();
}

it("takes the version of a package that the page has in use", async () => {
  const scope = { "@jupyterlab/notebook": { "4.4.9": of("in use", 1), "4.10.0": of("newer") } };
  expect(await load(scope)).toEqual({ uses: "in use" });
});

it("says which package the page does not have", async () => {
  await expect(load({})).rejects.toThrow("The application does not share @jupyterlab/notebook.");
});

it("gives an application without notebooks, such as Voila, no plugins", async () => {
  expect(await load({}, {})).toEqual([]);
});
