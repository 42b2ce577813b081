import { describe, expect, test } from "vitest";
import { buttons, happens, PlayedSocket, press, Recording, settle, show, usePage } from "./page";

usePage();

const at = (seconds: number): string => new Date(Date.now() + 1_000 * seconds).toISOString();
const limited = (seconds: number, more = {}): object => ({
  kind: "rate_limited",
  since: at(0),
  until: at(seconds),
  attempt: 2,
  tries: 4,
  cause: "Rate limit reached",
  ...more,
});
const bar = (root: HTMLElement): HTMLElement | null => root.querySelector("[data-delay]");
const said = (root: Element | null): string => (root?.textContent ?? "").replaceAll(/\s+/g, " ").trim();
const sent = (): string[] => PlayedSocket.sent.map((command) => command.type).filter((type) => type !== "shown");

describe("a run whose model's service is asked again", () => {
  test("says why, and counts the seconds to the next try; after that it says that it tries", async () => {
    const root = await show((run: Recording) => run.delay(limited(24)));
    expect(said(root.querySelector(".ak-status"))).toBe("Rate limited");
    expect(said(bar(root))).toMatch(/^Rate limited, next try in 2[34] s \(try 2 of 4\)\. Rate limit reached/);
    await settle(10_000);
    expect(said(bar(root))).toMatch(/next try in 1[34] s/);
    expect(buttons(bar(root)!)).toEqual(["Try now", "Stop"]);
    await settle(15_000);
    expect(said(bar(root))).toMatch(/^Rate limited, trying again, [12] s \(try 2 of 4\)\. Rate limit reached/);
    expect(buttons(bar(root)!)).toEqual([]);
  });

  test("asks now where that is pressed, once, and the focus stays in the run", async () => {
    const root = await show((run: Recording) => run.delay(limited(24)));
    const tryNow = [...bar(root)!.querySelectorAll("button")][0]!;
    tryNow.focus();
    await press(bar(root)!, "Try now");
    expect(sent().filter((type) => type === "try_now")).toHaveLength(1);
    expect(buttons(bar(root)!)).toEqual([]);
    await settle(4_000); // from the press on
    expect(said(bar(root))).toMatch(/trying again, [34] s/);
    expect(root.contains(document.activeElement)).toBe(true);
    await happens((run) => run.delay(limited(30, { attempt: 3 })));
    expect(said(bar(root))).toMatch(/next try in (30|29) s \(try 3 of 4\)/);
    expect(buttons(bar(root)!)).toEqual(["Try now", "Stop"]);
    await happens((run) => run.delay(null));
    expect(bar(root)).toBeNull();
    expect(said(root.querySelector(".ak-status"))).toBe("Running");
  });
});
