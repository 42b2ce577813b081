"""Emits approvals and outcomes to Jupyter's event log, for sites that collect them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args

from agent_kernel.log.audit import AuditedEntry, Entry
from agent_kernel.protocol.vocabulary import CallState, DecidedBy, Scope

APPROVAL_EVENT = "https://agent-kernel.org/events/approval/v1"
OUTCOME_EVENT = "https://agent-kernel.org/events/outcome/v1"

Fields = dict[str, dict[str, Any]]


def _text(description: str, **more: Any) -> dict[str, Any]:
    return {"type": "string", "description": description, **more}


def _one_of(words: Any, description: str) -> dict[str, Any]:
    return {"enum": list(words), "description": description}


_CALL: Fields = {
    "conversation_id": _text("The conversation that the call belongs to."),
    "run_id": _text("The run that the call belongs to."),
    "tool_call_id": _text("The call, by the model's id. It is unique within its conversation."),
    "approval_id": _text("The call, by an id of its own."),
    "tool_name": _text("The tool that the model asked for."),
    "digest": _text("SHA-256, in hexadecimal, of the call's canonical arguments: of a decision, those it is for."),
}
_ENTRY: Fields = {
    "audit_number": {"type": "integer", "description": "The number of this entry in the log's audit trail."},
    "audit_hash": _text(
        "SHA-256 of that entry. The trail is a chain: a site that keeps this hash can show later that nothing before "
        "it was changed."
    ),
}
_DECISION: Fields = {
    "decision": _one_of(("approved", "denied"), "What was decided."),
    "by": _one_of(
        get_args(DecidedBy),
        "Who decided; `script` where nobody was there to ask and the notebook brought its answers along.",
    ),
    "decided_by": _text("The person, where the server's identity provider knows one.", type=["string", "null"]),
    "scope": _one_of(get_args(Scope), "What else the decision covers; anything but `once` made a rule."),
    "edited": {
        "type": "boolean",
        "description": "Whether the person changed the arguments. The digest is that of the changed ones.",
    },
    "decided_at": _text("When the decision was made, in UTC.", format="date-time"),
}
_OUTCOME: Fields = {
    "state": _one_of(
        sorted(set(get_args(CallState)) - {"proposed", "awaiting_approval", "approved", "executing"}),
        "How the call ended. `success` and `error`: it ran. `unknown`: it was begun, and nobody can say how far it "
        "came. `cancelled`: it was stopped, while it ran where `started_at` is given. All others: it never ran.",
    ),
    "started_at": _text("When the call began to run, in UTC.", type=["string", "null"]),
    "ended_at": _text("When the call ended, in UTC.", format="date-time"),
    "duration_ms": {"type": ["integer", "null"], "description": "How long the call ran, in milliseconds."},
}
_OPTIONAL = {"decided_by", "started_at", "duration_ms"}


def _schema(schema_id: str, title: str, description: str, fields: Fields) -> dict[str, Any]:
    properties = _CALL | fields | _ENTRY
    return {
        "$id": schema_id,
        "version": "1",
        "title": title,
        "personal-data": True,
        "description": description,
        "type": "object",
        "required": [name for name in properties if name not in _OPTIONAL],
        "properties": properties,
    }


SCHEMAS = (
    _schema(
        APPROVAL_EVENT,
        "Decisions on an agent's tool calls",
        "A tool call was approved or denied, by a person, by policy or by a script. Emitted after the decision is on "
        "disk. The call's arguments are not part of the event: `digest` names them.",
        _DECISION,
    ),
    _schema(
        OUTCOME_EVENT,
        "Outcomes of an agent's tool calls",
        "A tool call has ended, whether it ran or not. Emitted after the outcome is on disk; once for each call. "
        "Neither the call's arguments nor its result are part of the event: `digest` names the arguments.",
        _OUTCOME,
    ),
)


def emitter(event_logger: Any) -> Callable[[Sequence[AuditedEntry]], None]:
    """Register the schemas with a server's event logger. Returns a function, for the event loop, that emits decisions
    and outcomes of the audit trail, which are on disk already."""
    for schema in SCHEMAS:
        event_logger.register_event_schema(schema)

    def emit(audited: Sequence[AuditedEntry]) -> None:
        for one in audited:
            schema_id, data = event_of(*one)
            event_logger.emit(schema_id=schema_id, data=data)

    return emit


def event_of(entry: Entry, fields: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The schema's id and the event's data, without arguments and results."""
    data = {name: fields[name] for name in _CALL} | {"audit_number": entry.number, "audit_hash": entry.hash}
    if fields["kind"] == "decision":
        edited = {"edited": fields.get("edited", False), "decided_at": fields["at"]}
        return APPROVAL_EVENT, data | {name: fields.get(name) for name in _DECISION} | edited
    return OUTCOME_EVENT, data | {name: fields.get(name) for name in _OUTCOME} | {"ended_at": fields["at"]}
