"""The results of calls in words for the model: one text per outcome, so that denied, failed and done are distinct.

Models' adapters and the demo's recording recognise them by their beginnings.
"""

from typing import assert_never

from agent_kernel.protocol.views import ToolCallView
from agent_kernel.protocol.vocabulary import CallState, OutcomeStatus

DENIED_PREFIX = "Denied"
ERROR_PREFIX = "Error"
CANCELLED_PREFIX = "Cancelled"
REPLACED_PREFIX = "Replaced"
EXPIRED_PREFIX = "Expired"
UNKNOWN_PREFIX = "Outcome unknown"
NOT_DONE_PREFIXES = (ERROR_PREFIX, CANCELLED_PREFIX, REPLACED_PREFIX, EXPIRED_PREFIX, UNKNOWN_PREFIX)
"""The prefixes of calls whose effect can't be assumed."""
EDITED_NOTE = "The user changed the arguments"
NOTHING_RAN = "Nothing ran."
STORED_PREFIX = "Stored outcome"


def outcome_status(state: CallState) -> OutcomeStatus:
    """The outcome of a final state as `tool_complete` names it."""
    match state:
        case "success" | "denied" | "cancelled" | "unknown":
            return state
        case "error" | "invalid":
            return "error"
        case "superseded" | "expired":
            return "cancelled"
        case "proposed" | "awaiting_approval" | "approved" | "executing":
            raise ValueError(f"{state} is not a final state")
        case _:
            assert_never(state)


def invalid(fault: str) -> str:
    return f"{ERROR_PREFIX}: this call is not valid and did not run. {fault}"


def denied(by: str, reason: str | None) -> str:
    said = f" Reason: {reason}" if reason else ""
    return f"{DENIED_PREFIX} {by}.{said} {NOTHING_RAN} Do not send the same call again."


def cancelled_before_start(reason: str) -> str:
    return f"{CANCELLED_PREFIX} before it started. {reason} {NOTHING_RAN}"


def superseded() -> str:
    return f"{REPLACED_PREFIX} by a new message of the user. {NOTHING_RAN}"


def run_again() -> str:
    return f"{REPLACED_PREFIX}: the user ran the cell again. {NOTHING_RAN}"


def expired() -> str:
    return f"{EXPIRED_PREFIX}: nobody decided in time. {NOTHING_RAN}"


def unknown(reason: str) -> str:
    return (
        f"{UNKNOWN_PREFIX}. {reason} The call may have finished, run in part, or not run at all. "
        "Look before you act on it."
    )


def stored(age: float, result: str) -> str:
    """The text of a call that did not run, because the outcome of `age` seconds ago was given again."""
    minutes = int(age // 60)
    return f"{STORED_PREFIX} of {minutes} {'minute' if minutes == 1 else 'minutes'} ago. {NOTHING_RAN}\n{result}"


def ended(call: ToolCallView, state: CallState, content: str, *, cut: bool = False) -> str:
    """The text of a call that ran. With `cut`, its content begins with why Agent Kernel interrupted it."""
    text = unknown(content) if state == "unknown" else content
    if state == "error" and not content.startswith(ERROR_PREFIX):
        text = f"{ERROR_PREFIX}: {content}"
    if state == "cancelled" and cut:
        text = f"{CANCELLED_PREFIX} while it ran; what ran before that stays. {content}"
    elif state == "cancelled":
        text = f"{CANCELLED_PREFIX} by the user while it ran; what ran before that stays.\n{content}"
    if call.edited:
        text = f"{EDITED_NOTE} before approving. What ran: {call.tool_input}\n\n{text}"
    return text
