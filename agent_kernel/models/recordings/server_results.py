"""Plays the calls of MCP servers' tools from a recording, which has their declarations and results: a replay needs no
server."""

import base64
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from agent_kernel.errors import InvalidArguments
from agent_kernel.models.recordings.format import RecordedCall, RecordedResult, Recording, is_of_servers, load_image
from agent_kernel.own_thread import in_own_thread
from agent_kernel.protocol.calls import ApprovedCall, Outcome
from agent_kernel.protocol.tools import ServerTool, ToolDeclaration
from agent_kernel.protocol.views import OutputView
from agent_kernel.tools import outcome_texts
from agent_kernel.tools.arguments import canonical, digest, parse
from agent_kernel.tools.executor import OutputSink
from agent_kernel.tools.server_tools import CALL_TOOL, FIND_TOOLS

NOT_RECORDED = "The recording has no result of this call, and a replay asks no server. Record it again."


class RecordedServerTools:
    """Implements `agent_kernel.tools.executor.ServerTools`."""

    def __init__(self, recording: Recording) -> None:
        self._path = recording.path
        self._declared = {str(tool.get("name")): tool for one in recording.settings.values() for tool in one.tools}
        self._results: dict[tuple[str, str], deque[RecordedResult]] = defaultdict(deque)
        self._names: dict[str, None] = {}
        for call, result in _results_of(recording):
            name, arguments = _unwrapped(call)
            self._results[name, arguments].append(result)
            self._names[call.name] = self._names[name] = None

    def declarations(self, own: Sequence[str]) -> list[ToolDeclaration]:
        """The tools of servers that it calls: those that the run does not have itself, by their names."""
        names = [name for name in self._names if is_of_servers(name) and name not in own]
        return [self._declaration(name) for name in names]

    def _declaration(self, name: str) -> ToolDeclaration:
        found = self._declared.get(name, {})
        parameters = found.get("parameters") or {"type": "object", "properties": {}}
        server, _, tool = name.partition("__")
        declared = ToolDeclaration(
            name, str(found.get("description") or name), parameters, origin=ServerTool(server, tool or name)
        )
        return replace(declared, approval="allow", read_only=True) if name == FIND_TOOLS else declared

    async def offered(self, *_: Any, **__: Any) -> Sequence[ToolDeclaration]:
        return self.declarations(())

    async def unallowed(self, *_: Any) -> dict[str, Any] | None:
        return None

    async def decide(self, *_: Any, **__: Any) -> tuple[bool, str]:
        return True, NOT_RECORDED

    async def call(self, call: ApprovedCall, tool: ToolDeclaration, _path: Any, emit: OutputSink, _ask: Any) -> Outcome:
        found = self._results.get((tool.name, digest(call.arguments_json)))
        if not found:  # it was edited, then or now
            found = next((results for (name, _), results in self._results.items() if name == tool.name), None)
        if not found:
            return Outcome("error", NOT_RECORDED)
        result = found[0] if len(found) == 1 else found.popleft()
        for image in result.images:
            raw = await in_own_thread(partial(load_image, self._path, image))
            emit(OutputView(kind="display", data={image.media_type: base64.b64encode(raw).decode()}))
        text = result.text
        if text.startswith(outcome_texts.EDITED_NOTE):
            text = text.partition("\n\n")[2]
        emit(OutputView(kind="stream", name="stdout", text=text))
        return Outcome("error" if text.startswith(outcome_texts.ERROR_PREFIX) else "success", text)


def _results_of(recording: Recording) -> Iterator[tuple[RecordedCall, RecordedResult]]:
    """The calls with what the next turn of the same run was told of them."""
    turns = [placed.turn for placed in recording.turns]
    told = {(turn.prompt, turn.occurrence, turn.step): turn.asked.results for turn in turns}
    for turn in turns:
        results = told.get((turn.prompt, turn.occurrence, turn.step + 1), ())
        yield from zip(turn.answer.calls, results, strict=False)


def _unwrapped(call: RecordedCall) -> tuple[str, str]:
    """The name of the tool that a call is for, and the digest of its arguments."""
    try:
        arguments = parse(call.arguments)
        if call.name == CALL_TOOL and isinstance(arguments.get("name"), str):
            return arguments["name"], digest(canonical(parse(arguments.get("arguments") or {})))
        return call.name, digest(canonical(arguments))
    except InvalidArguments:
        return call.name, ""
