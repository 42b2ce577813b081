/** Imports in src/ go down the list of rooms, and no two modules import each other. */
import { readdirSync, readFileSync } from "node:fs";
import { dirname, normalize, sep } from "node:path";
import { expect, test } from "vitest";

/** From the ground up. */
const ROOMS = ["text", "state", "channel", "ui", "store", "card", "run"];

const modules = readdirSync("src", { recursive: true, encoding: "utf8" })
  .filter((path) => /\.tsx?$/.test(path))
  .map((path) => `src/${path}`);

const imports = new Map(
  modules.map((path) => {
    const specifiers = [...readFileSync(path, "utf8").matchAll(/from "(\.[^"]+)"/g)].map((match) => match[1]!);
    return [nameOf(path), specifiers.map((specifier) => nameOf(normalize(`${dirname(path)}/${specifier}`)))];
  }),
);

function nameOf(path: string): string {
  return path
    .replace(/\.tsx?$/, "")
    .replace(/\/index$/, "")
    .replaceAll(sep, "/");
}

function floorOf(module: string): number {
  return ROOMS.indexOf(module.split("/")[1]!);
}

test("no room knows one above it", () => {
  expect(imports.size).toBeGreaterThan(30);
  const up = [...imports].flatMap(([module, all]) =>
    all
      .filter((one) => floorOf(module) >= 0 && floorOf(one) > floorOf(module))
      .map((one) => `${module} imports ${one}`),
  );
  expect(up).toEqual([]);
});
