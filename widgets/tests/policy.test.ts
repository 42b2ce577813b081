/** The panel of the policy badge: rules, modes, the agent outside, instructions. */
import { expect, test } from "vitest";
import { accessibleName, button, buttons, happens, PlayedSocket, press, settle, show, usePage } from "./page";

usePage();

const RULE = {
  rule_id: "rule_1",
  scope: "user",
  tool_name: "run_shell",
  text: "allow run_shell",
  origin: "saved",
  made_by: null,
  made_at: null,
};

const openPolicy = async (root: HTMLElement): Promise<HTMLInputElement[]> => {
  root.querySelector<HTMLElement>(".ak-badge")!.click();
  await settle();
  return [...root.querySelectorAll<HTMLInputElement>(".ak-rules input")];
};
const modesOf = (root: HTMLElement): (string | null)[] =>
  [...root.querySelectorAll(".ak-rules .ak-choice > span:first-of-type")].map((one) => one.textContent);

test("always shows the policy in force, with its rules one click away, without a button once it has ended", async () => {
  const rule = { ...RULE, scope: "project", made_by: "ana", made_at: "2026-11-22T08:00:00Z" };
  const root = await show((run) => run.say("Done.").finish(), { rules: [rule] });
  expect(accessibleName(root.querySelector(".ak-badge")!)).toBe("Policy: Asks before acting, 1 always-allow rule");
  await openPolicy(root);
  expect(root.textContent).toContain("allow run_shell in this project, saved by ana on 2026-11-22");
  expect(buttons(root)).toEqual([]);
});

test("lists the rules of code, of the site and of the folder with who made them, and removes none of these", async () => {
  const rule = (origin: string, text: string, made_by: string | null = null): object => {
    return { ...RULE, rule_id: null, scope: null, text, origin, made_by };
  };
  const policy = {
    mode: "ask",
    cap: null,
    limited_by: ".agent-kernel.toml: 1 rule",
    notes: ["Run unasked where their own declaration says so: plot."],
    rules: [
      rule("site", "deny run_shell"),
      rule("code", "allow run_python"),
      rule("folder", "ask write_file", ".agent-kernel.toml"),
    ],
  };
  const root = await show((run) => run.becomes({ policy }));
  const badge = root.querySelector<HTMLElement>(".ak-badge")!;
  expect(accessibleName(badge)).toBe("Policy: Asks before acting, 1 always-allow rule, 2 rules that deny or ask");
  expect(root.querySelector(".ak-limits")?.textContent).toBe("limited by .agent-kernel.toml: 1 rule");
  await openPolicy(root);
  const lines = [...root.querySelectorAll(".ak-rules li")].map((line) => line.textContent);
  expect(lines).toEqual([
    "deny run_shell from this site",
    "allow run_python from this notebook’s code",
    "ask write_file from .agent-kernel.toml",
  ]);
  expect(root.textContent).not.toContain("No rule is in force");
  expect(root.textContent).toContain("Run unasked where their own declaration says so: plot.");
  expect(root.textContent).toContain("Limited by .agent-kernel.toml: 1 rule. A file can only tighten.");
  expect(buttons(root.querySelector(".ak-rules")!)).not.toContain("Remove");
});

test("says who asks from outside, and sends that away with one press", async () => {
  const root = await show((run) => run.becomes({ client: "Claude Code" }));
  await openPolicy(root);
  expect(root.textContent).toContain("Claude Code asks from outside. Nobody has verified this name.");
  await press(root, "Send away");
  expect(PlayedSocket.sent.at(-1)).toEqual({ type: "send_away" });
});

test("names the files that it follows, and switches them off in the panel", async () => {
  const instructions = [
    { file: "AGENTS.md", digest: "a", characters: 1_012, beginning: "Use <b>polars</b>", skill: false, off: false },
    { file: "skills/plot/SKILL.md", digest: "b", characters: 9, beginning: "", skill: true, off: false },
  ];
  const root = await show((run) => run.becomes({ instructions }));
  expect(root.querySelector(".ak-meta")?.textContent).toContain("follows AGENTS.md, 1 skill");
  await openPolicy(root);
  expect(root.querySelector(".ak-rules pre")?.textContent).toBe("Use <b>polars</b>\n… [995 characters left out here]");
  await press(root, "Switch off");
  expect(PlayedSocket.last.sent.at(-1)).toMatchObject({ type: "instructions", file: "AGENTS.md", off: true });
  const off = instructions.map((one) => ({ ...one, off: one.file === "AGENTS.md" }));
  await happens((run) => run.becomes({ instructions: off }));
  expect(root.querySelector(".ak-meta")?.textContent).toContain("follows 1 skill");
  expect(buttons(root)).toContain("Switch on");
});

test("lets the policy be switched, once, and says what becomes of the calls that wait", async () => {
  const root = await show((run) => run.ask("t1", "run_python", { code: "1" }));
  const [allow] = await openPolicy(root);
  expect(modesOf(root)).toEqual(["Allow", "Edit", "Ask", "Plan", "Deny"]);
  expect(root.querySelector(".ak-rules .ak-btn")).toBeNull();
  allow!.click();
  await settle();
  expect(root.querySelector(".ak-rules")?.textContent).toContain("1 call still waits for you, unless");
  await press(root, "Switch to Allow");
  expect(PlayedSocket.sent.at(-1)).toEqual({ type: "policy", mode: "allow", decide_waiting: false });
  expect(button(root, "Switching…").getAttribute("aria-disabled")).toBe("true");
  await happens((run) => run.becomes({ policy: { mode: "allow", rules: [], cap: null } }));
  expect(accessibleName(root.querySelector(".ak-badge")!)).toBe("Policy: Acts without asking");
  expect(root.querySelector(".ak-rules .ak-btn")).toBeNull();
});
