/** Words for a run's model, its policy and who decided. */
import type { PolicyMode, RunView } from "../protocol";
import type { Decider } from "../state";

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
