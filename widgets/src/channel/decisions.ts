/** Decisions that the runtime has not confirmed yet. Each is kept until the log says how the call was decided. */
import type { ApprovalResponseCommand } from "../protocol";

export interface PendingDecision {
  readonly command: ApprovalResponseCommand & { readonly id: string };
  readonly callId: string;
  readonly runId: string;
  /** "queued" has not left the page; "sent" has, and its answer is awaited. */
  readonly status: "queued" | "sent";
}

export class Decisions {
  /** Approvals and pauses that this page answered, for "Approved by you". */
  readonly own = new Set<string>();
  private pending: ReadonlyMap<string, PendingDecision> = new Map();

  get all(): ReadonlyMap<string, PendingDecision> {
    return this.pending;
  }

  get(approvalId: string | null): PendingDecision | null {
    return (approvalId !== null && this.pending.get(approvalId)) || null;
  }

  put(decision: PendingDecision): void {
    this.pending = new Map(this.pending).set(decision.command.approval_id, decision);
    if (decision.status === "sent") this.own.add(decision.command.approval_id);
  }

  /** Forget a decision; `own` says whether it is what was decided in the end. */
  settle(approvalId: string, own: boolean): void {
    const pending = new Map(this.pending);
    pending.delete(approvalId);
    this.pending = pending;
    if (!own) this.own.delete(approvalId);
  }

  /** The line was lost: whether the last decisions arrived is not known, so they wait with the others. */
  lineLost(): void {
    this.pending = new Map([...this.pending].map(([id, decision]) => [id, { ...decision, status: "queued" as const }]));
  }

  /** The decision of a command that an error answers. */
  answeredBy(commandId: string | null): PendingDecision | null {
    return [...this.pending.values()].find(({ command }) => command.id === commandId) ?? null;
  }
}
