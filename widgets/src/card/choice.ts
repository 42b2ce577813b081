/** The command that a choice on a card becomes. */
import type { ApprovalResponseCommand } from "../protocol";
import type { Choice } from "./context";

export function commandFor(choice: Choice, approvalId: string, digest: string): ApprovalResponseCommand {
  const answer = { type: "approval_response", approval_id: approvalId, digest } as const;
  switch (choice.kind) {
    case "approve":
      return { ...answer, approved: true };
    case "deny":
      return choice.reason.trim() === ""
        ? { ...answer, approved: false }
        : { ...answer, approved: false, reason: choice.reason.trim() };
    case "edit":
      return { ...answer, approved: true, edited_input: choice.input };
    case "always":
      return { ...answer, approved: true, scope: choice.scope, rule: choice.rule };
  }
}
