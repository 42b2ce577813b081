"""Runs a cell in a kernel as a page would, where no page has its notebook open."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from nbformat.v4 import output_from_msg

from agent_kernel.execution.kernel_executor import KernelCalls
from agent_kernel.execution.link import KernelLink

MOST_CHARACTERS = 20_000_000
"""Of a cell's outputs, beyond which no more are kept."""
IDLE_SECONDS = 2.0
"""How much later than the reply the last outputs may come."""


@dataclass(frozen=True, slots=True)
class Ran:
    outputs: list[dict[str, Any]]
    count: int | None
    success: bool


@dataclass(slots=True, weakref_slot=True)
class CellOutputs:
    """The outputs of one execution, in nbformat."""

    outputs: list[dict[str, Any]] = field(default_factory=list)
    idle: asyncio.Event = field(default_factory=asyncio.Event)
    _room: int = MOST_CHARACTERS
    _clears: bool = False

    def read(self, kind: str, content: Mapping[str, Any]) -> None:
        """Take one message of the kernel. Raises `ValueError` or `KeyError` for one that is malformed."""
        match kind:
            case "status":
                if content["execution_state"] == "idle":
                    self.idle.set()
            case "clear_output":
                self._clears = bool(content.get("wait"))
                if not self._clears:
                    self.outputs.clear()
            case "stream" | "display_data" | "execute_result" | "error":
                self._add(dict(output_from_msg({"header": {"msg_type": kind}, "content": content})))

    def _add(self, output: dict[str, Any]) -> None:
        self._room -= len(str(output))
        if self._room < 0:
            return
        if self._clears:
            self.outputs.clear()
            self._clears = False
        last = self.outputs[-1] if self.outputs else {}
        if output["output_type"] == "stream" == last.get("output_type") and output["name"] == last["name"]:
            last["text"] += output["text"]
        else:
            self.outputs.append(output)


async def run_cell(link: KernelLink, calls: KernelCalls, source: str, cell_id: str) -> Ran:
    """Run it with its number and its place in the history. Raises `KernelGone`."""
    sent = link.execute_cell(source, cell_id)
    outputs = CellOutputs()
    calls.listen(sent[0], outputs)
    reply = await link.wait(*sent)
    with suppress(TimeoutError):
        async with asyncio.timeout(IDLE_SECONDS):
            await outputs.idle.wait()
    count = reply.get("execution_count")
    return Ran(outputs.outputs, count if isinstance(count, int) else None, reply.get("status") == "ok")
