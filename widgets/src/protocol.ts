/** The wire's types by the names the client uses. The models themselves are in agent_kernel/protocol. */
import type { AgentKernelProtocol, ApprovalRequestEvent, ErrorEvent, RunView, ToolCallView } from "./protocol.gen";

export type ServerEvent = AgentKernelProtocol["event"];
export type ClientCommand = AgentKernelProtocol["command"];
export type CallState = ToolCallView["state"];
export type ErrorCode = ErrorEvent["code"];
export type PolicyMode = RunView["policy"]["mode"];
export type Scope = ApprovalRequestEvent["scopes"][number];
export type * from "./protocol.gen";
