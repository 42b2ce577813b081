/** The wire's types by the names the client uses. The models themselves are in agent_kernel/protocol. */
import type {
  AgentKernelProtocol,
  ErrorEvent,
  RunView,
  SessionEvent,
  ToolCallView,
  ApprovalRequestEvent,
} from "./protocol.gen";

export type ServerEvent = AgentKernelProtocol["event"];
/** `id` comes back in the error that answers a command. */
export type ClientCommand = AgentKernelProtocol["command"] & { readonly id?: string };
export type CallState = ToolCallView["state"];
export type ErrorCode = ErrorEvent["code"];
export type PolicyMode = RunView["policy"]["mode"];
export type Scope = ApprovalRequestEvent["scopes"][number];
export type {
  ApprovalResponseCommand,
  BudgetCommand,
  BudgetLimits,
  BudgetRaise,
  NoticeView,
  ConversationView,
  ErrorEvent,
  OutputView,
  PauseView,
  Preview,
  RuleOffer,
  RunView,
  SessionEvent,
  ToolCallView,
  Warning,
} from "./protocol.gen";

/** The command that an event answers. `null` for one that answers none, and from servers of before, which name none. */
export function commandIdOf(event: ErrorEvent | SessionEvent): string | null {
  return (event as { readonly command_id?: string | null }).command_id ?? null;
}
