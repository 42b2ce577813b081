/** What a state is called, and how it looks. */
import type { CallState, PolicyMode, RunView } from "../protocol";
import type { Decider } from "../state";
import type { IconName } from "../ui/icon";

export interface StateLook {
  readonly word: string;
  readonly icon: IconName;
  readonly tone: string;
}

export const CALL_STATES: Readonly<Record<CallState, StateLook>> = {
  proposed: { word: "Preparing", icon: "prep", tone: "ak-calm" },
  invalid: { word: "Not valid", icon: "invalid", tone: "ak-bad" },
  awaiting_approval: { word: "Waiting for you", icon: "wait", tone: "ak-turn" },
  approved: { word: "Approved, next in line", icon: "clock", tone: "ak-calm" },
  executing: { word: "Running", icon: "run", tone: "ak-calm ak-spin" },
  success: { word: "Done", icon: "check", tone: "ak-ok" },
  error: { word: "Failed", icon: "cross", tone: "ak-bad" },
  denied: { word: "Denied", icon: "deny", tone: "ak-calm" },
  cancelled: { word: "Cancelled", icon: "cancel", tone: "ak-calm" },
  superseded: { word: "Replaced", icon: "skip", tone: "ak-calm" },
  expired: { word: "Expired", icon: "expired", tone: "ak-calm" },
  unknown: { word: "Outcome unknown", icon: "unknown", tone: "ak-warn" },
};

export const ASKING: StateLook = { word: "Waiting for your answer", icon: "ask", tone: "ak-turn" };

/** A call that has been handed over, and that the kernel takes up after the user's own cell. */
export const NEXT_IN_LINE = CALL_STATES.approved;

const POLICIES: Readonly<Record<PolicyMode, string>> = {
  ask: "Asks before acting",
  edit: "Edits files here, asks for the rest",
  plan: "Plan only: reads, never acts",
  allow: "Acts without asking",
  deny: "Denies every action",
};

/** The model, and how much it was asked to reason. A recording reasons as it did. */
export function modelWords(run: RunView): string {
  return run.effort && !run.recorded ? `${run.model} · effort ${run.effort}` : run.model;
}

export function policyWords(policy: RunView["policy"]): string {
  const allowing = policy.rules.filter((rule) => rule.text.startsWith("allow")).length;
  const others = policy.rules.length - allowing;
  const parts = [POLICIES[policy.mode]];
  if (allowing > 0) parts.push(`${allowing} always-allow ${allowing === 1 ? "rule" : "rules"}`);
  if (others > 0) parts.push(others === 1 ? "1 rule that denies or asks" : `${others} rules that deny or ask`);
  return parts.join(", ");
}

/** "The model has seen this plot." */
export function seenWords(seen: number, shown: number): string {
  if (seen < shown) return `The model has seen ${seen} of these ${shown} plots.`;
  return seen === 1 ? "The model has seen this plot." : `The model has seen these ${seen} plots.`;
}

/** "you", "ana", "this site's policy": as the end of "Approved by". */
export function byWhom(decider: Decider): string {
  switch (decider.kind) {
    case "you":
      return "you";
    case "other":
      return decider.name ?? "another tab";
    case "policy":
      return "policy";
    case "script":
      return "a script";
  }
}
