"""The JSON Schema that clients in other languages are made from."""

from typing import Any

import jsonschema
import pytest

from agent_kernel.protocol.commands import client_command_adapter
from agent_kernel.protocol.events import TokenEvent
from agent_kernel.protocol.schema import protocol_schema


def _branch(kind: str) -> dict[str, Any]:
    schema = protocol_schema()
    return {"$defs": schema["$defs"], **schema["properties"][kind]}


def test_an_event_is_described_as_it_is_written() -> None:
    event = TokenEvent(message_id="msg_1", content="Hello").model_dump(mode="json")
    jsonschema.validate(event, _branch("event"))
    assert set(protocol_schema()["$defs"]["TokenEvent"]["required"]) == set(event)


@pytest.mark.parametrize("kind", ["event", "command"])
def test_every_frame_needs_the_tag_that_tells_it_apart(kind: str) -> None:
    schema = protocol_schema()
    for option in schema["properties"][kind]["oneOf"]:
        model = schema["$defs"][option["$ref"].rsplit("/", 1)[1]]
        assert "type" in model["required"], model["title"]


def test_a_command_may_leave_out_what_has_a_default() -> None:
    command = {"type": "approval_response", "approval_id": "apr_1", "approved": True}
    jsonschema.validate(command, _branch("command"))
    assert client_command_adapter.validate_python(command).type == "approval_response"
