"""Tool calls as rows: which columns make a call, and what they mean."""

from collections.abc import Sequence
from typing import Any

import orjson

from agent_kernel.log.bodies import pack_against, unpack
from agent_kernel.protocol.views import Place, Preview, ToolCallView, Warning

_COLUMNS = (
    "tool_call_id, approval_id, run_id, tool_name, tool_input, digest, state, reason, decided_via, decided_by, edited, "
    "read_only, recorded, warnings, preview, created_at, decided_at, started_at, ended_at, duration_ms, "
    "result, truncated, output_file, undo, undone, waiting_behind, unknown_answer, "
    "seen_images, place"
)
_FIELDS = [*_COLUMNS.split(", "), "conversation_id"]
CALL = f"{_COLUMNS}, (SELECT conversation_id FROM conversations WHERE number = conversation)"
"""What `call_values` makes a call of, for a SELECT and for RETURNING alike."""
_EMPTY_PREVIEW = Preview(kind="text", text="").model_dump()
"""What a preview of an older log does not have."""
_FLAGS = [name for name, field in ToolCallView.model_fields.items() if field.annotation is bool]


def stored_preview(preview: Preview | None, tool_input: str) -> bytes | None:
    """A preview as it is stored with the arguments that it shows: most of it is their text again. The two are only
    ever replaced together."""
    return pack_against(preview.model_dump_json(), tool_input.encode()) if preview is not None else None


def dump_warnings(warnings: Sequence[Warning]) -> str:
    return orjson.dumps([warning.model_dump() for warning in warnings]).decode()


def stored_place(place: Place | None) -> str | None:
    return place.model_dump_json() if place is not None else None


def call_values(row: Sequence[Any]) -> dict[str, Any]:
    """What `ToolCallView` has, of a row with the columns `CALL`."""
    values = dict(zip(_FIELDS, row, strict=True))
    values["by"] = values.pop("decided_via")
    for name in _FLAGS:
        values[name] = bool(values[name])
    values["warnings"] = orjson.loads(values["warnings"])
    if values["preview"]:
        kept = orjson.loads(unpack(values["preview"], values["tool_input"].encode()))
        values["preview"] = _EMPTY_PREVIEW | kept
    values["result"] = values["result"] and unpack(values["result"])
    values["place"] = values["place"] and orjson.loads(values["place"])
    if values["state"] != "executing":
        values["waiting_behind"] = None  # what it was is of no more use
    return values
