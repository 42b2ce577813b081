"""Makes the JSON Schema of the protocol, for clients in other languages: `python -m agent_kernel.protocol.schema`.

Events are described as they are written, so every field is present. Commands are described as they are read, so a
field with a default may be left out, except the tag `type` that tells them apart.
"""

import json
import sys
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode
from pydantic_core import core_schema

from agent_kernel.protocol.commands import ClientCommand
from agent_kernel.protocol.events import ServerEvent
from agent_kernel.protocol.pages import PageMessage, PageRequest, RunsBegan

_REF = "#/$defs/{model}"


class _WireSchema(GenerateJsonSchema):
    """Marks fields as required that are always on the wire, also those with a default."""

    def field_is_required(
        self,
        field: core_schema.ModelField | core_schema.DataclassField | core_schema.TypedDictField,
        total: bool,
    ) -> bool:
        return self.mode == "serialization" or _is_tag(field) or super().field_is_required(field, total)


def _is_tag(field: Any) -> bool:
    schema = field["schema"]
    if schema["type"] != "default" or schema["schema"]["type"] != "literal":
        return False
    return len(schema["schema"]["expected"]) == 1


def protocol_schema() -> dict[str, Any]:
    """One schema document with the properties `event` (from servers) and `command` (from clients); and for JupyterLab's
    pages `page_request` and `page_message`."""
    adapters: list[tuple[str, JsonSchemaMode, TypeAdapter[Any]]] = [
        ("event", "serialization", TypeAdapter(ServerEvent)),
        ("command", "validation", TypeAdapter(ClientCommand)),
        ("page_request", "serialization", TypeAdapter(PageRequest | RunsBegan)),
        ("page_message", "validation", TypeAdapter(PageMessage)),
    ]
    properties, document = TypeAdapter.json_schemas(
        adapters, by_alias=True, title="AgentKernelProtocol", ref_template=_REF, schema_generator=_WireSchema
    )
    return {
        **document,
        "type": "object",
        "properties": {key: schema for (key, _), schema in properties.items()},
        "required": [key for key, _, _ in adapters],
        "additionalProperties": False,
    }


if __name__ == "__main__":
    json.dump(protocol_schema(), sys.stdout, indent=2, sort_keys=True)
    sys.stdout.write("\n")
