"""Assembles tool calls of Chat Completions from the pieces in which servers send them.

Deviations of servers, and how they are read:

- `index` missing (Ollama before 0.4.7, Gemini): the position among the pieces of one chunk is used instead.
- `index` always 0 for several calls (Ollama): a named piece with another id begins a new call.
- `id` missing, or new in every chunk (vLLM): only a piece that also has a name can begin a call.
- `id` and `name` repeated in every chunk: a piece continues a call whose arguments are not complete JSON yet.
- `arguments` as an object, or under the name `parameters`; fields beside `function` instead of in it.
- The whole arguments again at the end, as text or encoded twice (GLM, LiteLLM): they count once. Two different
  objects are left as they came, and are an error.
- One call under two indexes, with the same id.
"""

import json
from collections.abc import Iterator, Set
from dataclasses import dataclass, field
from typing import Any

from agent_kernel.models.answer_reading import SizeLimit, arguments_text, as_text, is_object
from agent_kernel.models.base import RequestedCall, ToolCallDelta
from agent_kernel.models.provider_items import CallItem, is_storable

LONGEST_NAME = 1_000
"""The most characters of a name that is assembled from pieces."""
_ENDS = ("}", '}"')
"""How complete arguments end, also encoded twice."""
_MOST_TIMES = 100
"""How often an object may be sent and count once."""
_DECODER = json.JSONDecoder()


@dataclass(slots=True, eq=False)
class _PartialCall:
    id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list)
    extra_content: dict[str, Any] | None = None
    """What Gemini wants back with the call: the signature of its thought."""

    @property
    def arguments(self) -> str:
        if len(self.pieces) > 1:
            self.pieces[:] = ["".join(self.pieces)]
        return self.pieces[0] if self.pieces else ""

    @property
    def complete(self) -> bool:
        """Whether the arguments are a complete JSON object. Cheap while they are not."""
        return bool(self.pieces) and self.pieces[-1].rstrip().endswith(_ENDS) and is_object(_once(self.arguments))


class CallAssembler:
    def __init__(self, size: SizeLimit) -> None:
        self._size = size
        self._calls: list[_PartialCall] = []
        self._slots: dict[object, _PartialCall] = {}
        self._last: _PartialCall | None = None

    def add(self, pieces: list[dict[str, Any]]) -> list[ToolCallDelta]:
        """Add the pieces of one chunk. Returns a delta for each call that begins with them."""
        begun = [self._add_piece(piece, position, alone=len(pieces) == 1) for position, piece in enumerate(pieces)]
        return [item for item in begun if item is not None]

    def unfinished(self) -> str | None:
        """The name of a call whose arguments are not complete JSON."""
        return next((call.name for call in self._calls if not call.complete), None)

    def broken_off(self) -> str | None:
        """The name of a call whose arguments have begun and are not complete JSON."""
        return next((call.name for call in self._calls if call.arguments.strip() and not call.complete), None)

    def result(self) -> tuple[RequestedCall, ...]:
        """The calls in order. Missing arguments become `{}`, which is what servers mean."""
        return tuple(RequestedCall(call.id, call.name, _once(call.arguments) or "{}") for call in self._calls)

    def items(self, ids: Set[str]) -> Iterator[CallItem]:
        """What the service wants back with the calls. `ids` are those that have to go back as they came."""
        for index, call in enumerate(self._calls):
            frame: dict[str, Any] = {"id": call.id} if call.id in ids else {}
            if call.extra_content is not None and is_storable(call.extra_content):
                frame["extra_content"] = call.extra_content
            if frame:
                yield CallItem(index, frame)

    def _add_piece(self, piece: dict[str, Any], position: int, *, alone: bool) -> ToolCallDelta | None:
        function = piece.get("function")
        function = function if isinstance(function, dict) else piece
        identifier = as_text(piece.get("id"))
        name = as_text(function.get("name"))
        arguments = function.get("arguments")
        if arguments is None:
            arguments = function.get("parameters")
        index = piece.get("index")
        call = self._current(index, identifier, position, alone=alone)
        begins = call is None or _begins_another(call, identifier, name, arguments, indexed=index is not None)
        if call is None or begins:
            self._size.begin_part()
            call = _PartialCall(id=self._size.take(identifier))
            self._calls.append(call)
        self._slots[index if index is not None else ("position", position)] = call
        self._last = call
        call.id = call.id or identifier
        if isinstance(extra := piece.get("extra_content"), dict):
            call.extra_content = extra
        had_name = bool(call.name)
        _take_name(call, name)
        if arguments:
            call.pieces.append(self._size.take(arguments_text(arguments)))
        if had_name or not call.name:
            return None
        return ToolCallDelta(self._calls.index(call), call.name, call.id)

    def _current(self, index: object, identifier: str, position: int, *, alone: bool) -> _PartialCall | None:
        """The call that a piece may continue."""
        known = next((call for call in self._calls if identifier and call.id == identifier), None)
        if index is not None:
            return self._slots.get(index, known)
        return known or (self._last if alone else self._slots.get(("position", position)))


def _begins_another(call: _PartialCall, identifier: str, name: str, arguments: Any, *, indexed: bool) -> bool:
    if not name or (identifier and identifier == call.id):
        return False
    other_id = bool(identifier and call.id)
    other_name = bool(call.name) and name != call.name
    if call.complete:
        again = indexed and bool(arguments) and _value(arguments_text(arguments)) == _value(call.arguments)
        return other_id or other_name or (bool(arguments) and not again)
    if not call.arguments:
        return other_id
    return (other_id and other_name) if indexed else (other_id or other_name)


def _take_name(call: _PartialCall, name: str) -> None:
    """Add a name, which may come whole, repeated, growing, or (rarely) in pieces before any arguments."""
    if not name or name == call.name:
        return
    if not call.name or name.startswith(call.name):
        call.name = name
    elif not call.arguments and len(call.name) < LONGEST_NAME:
        call.name += name


def _value(arguments: str) -> str:
    """A text that is the same for the same arguments."""
    try:
        return json.dumps(json.loads(_once(arguments)), sort_keys=True)
    except (ValueError, RecursionError):
        return arguments


def _once(arguments: str) -> str:
    """The arguments' object alone, where it was sent more than once or encoded twice; else the arguments as they are:
    of different objects, or of a half one, nobody knows which is meant."""
    text = rest = arguments.strip()
    first, value = "", None
    try:
        for _ in range(_MOST_TIMES):
            found, end = _DECODER.raw_decode(rest)
            sent = found if isinstance(found, str) else rest[:end]
            whole = json.loads(sent)
            if not isinstance(whole, dict) or (first and json.dumps(whole, sort_keys=True) != value):
                break
            first, value, rest = first or sent, json.dumps(whole, sort_keys=True), rest[end:].lstrip()
            if not rest:
                return first
    except (ValueError, RecursionError):
        pass
    return text
