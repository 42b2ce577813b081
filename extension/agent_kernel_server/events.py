"""Emits approvals and outcomes to Jupyter's event log, for sites that collect them. The schemas: `event_schemas`."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agent_kernel.log.audit import AuditedEntry, Entry

APPROVAL_EVENT = "https://agent-kernel.org/events/approval/v1"
OUTCOME_EVENT = "https://agent-kernel.org/events/outcome/v1"

_SCHEMAS = Path(__file__).parent / "event_schemas"
_CALL = ("conversation_id", "run_id", "tool_call_id", "approval_id", "tool_name", "digest")
_DECISION = ("decision", "by", "decided_by", "scope")
_OUTCOME = ("state", "started_at", "duration_ms")


def emitter(event_logger: Any) -> Callable[[Sequence[AuditedEntry]], None]:
    """Register the schemas with a server's event logger. Returns a function, for the event loop, that emits decisions
    and outcomes of the audit trail, which are on disk already."""
    for schema in ("approval", "outcome"):
        event_logger.register_event_schema(_SCHEMAS / schema / "v1.yaml")

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
