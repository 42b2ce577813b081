"""A model's request in the form in which it is recorded and compared."""

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from agent_kernel.instructions import OPEN as INSTRUCTIONS_OPEN
from agent_kernel.models.base import (
    CONTEXT_CLOSE,
    CONTEXT_OPEN,
    IMAGES,
    ModelRequest,
    WireMessage,
    text_of,
)
from agent_kernel.models.images import MEDIA_TYPES
from agent_kernel.models.recordings.format import Asked, RecordedImage, RecordedResult, Settings
from agent_kernel.models.recordings.normalise import Normaliser
from agent_kernel.models.redaction import scrub
from agent_kernel.protocol.kernel import CELLS_OPEN, FOLDER_OPEN, MENTIONS_OPEN, VARIABLES_OPEN

Clean = Callable[[str], str]
_SHORT = 16
"""The length of a digest that tells lines of one file apart, in hexadecimal digits."""
_EARLIER_CHARACTERS = 60
_MENTIONED_CELL = re.compile(r"(?:^|\n\n)@(?:\[|cell:)")


@dataclass(frozen=True, slots=True)
class Question:
    """One request, normalised."""

    prompt: str
    step: int
    index: int
    """The number of the prompt among those of the conversation, from 0."""
    conversation: str
    asked: Asked
    settings: Settings


class Reader:
    """Makes questions of requests. Keys that it knows by their shape, and `secrets`, are replaced."""

    def __init__(self, patterns: Sequence[str] = (), secrets: Callable[[], Sequence[str]] = tuple) -> None:
        self._normaliser = Normaliser(patterns)
        self._secrets = secrets

    def read(self, request: ModelRequest) -> Question:
        secrets = tuple(self._secrets())
        messages = [message for message in request.messages if message.get("role") != "system"]
        folder = _folder(messages)

        def clean(text: str) -> str:
            return self._normaliser.text(scrub(text, secrets), folder)

        settings = _settings(request, clean)
        runs = _runs(messages)
        *earlier, run = runs or [[]]
        prompt, variables = _prompt(run, clean)
        steps = _steps(run, clean)
        asked = Asked(
            settings=settings.id,
            effort=request.effort,
            variables=variables if len(steps) == 1 else (),
            images=_images(run[0]) if run and len(steps) == 1 else (),
            results=steps[-1],
            before=_digest([[_wire(result) for result in step] for step in steps[1:-1]]) if len(steps) > 2 else "",
            earlier=tuple(_summary(one, clean) for one in earlier),
        )
        return Question(prompt, len(steps) - 1, len(earlier), request.cache_key, asked, settings)

    def prompt(self, text: str) -> str:
        """A prompt alone, as decisions are filed under it."""
        return self._normaliser.text(scrub(text.partition(CONTEXT_OPEN)[0], tuple(self._secrets())))


def _digest(value: Any) -> str:
    return hashlib.sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).hexdigest()[:_SHORT]


def _runs(messages: Sequence[WireMessage]) -> list[list[WireMessage]]:
    """The messages from each user's message to the next."""
    runs: list[list[WireMessage]] = []
    for message in messages:
        if message.get("role") == "user" or not runs:
            runs.append([])
        runs[-1].append(message)
    return runs


def _prompt(run: Sequence[WireMessage], clean: Clean) -> tuple[str, tuple[str, ...]]:
    """The prompt, and what it was told of the variables, and of those and the files that it mentions. The notebook's
    name and cells are left out, because they differ where a notebook is moved, and where a runner stores no history."""
    prompt, _, context = text_of(run[0]).partition(CONTEXT_OPEN) if run else ("", "", "")
    variables: list[str] = []
    context, _, mentioned = f"\n\n{context.removesuffix(CONTEXT_CLOSE)}".partition(f"\n\n{MENTIONS_OPEN}")
    context = context.partition(f"\n\n{CELLS_OPEN}")[0]
    _, found, listed = context.partition(VARIABLES_OPEN)
    if found:
        variables = clean(listed.partition("\n\n")[0]).split("\n")
    if mentioned := _MENTIONED_CELL.split(mentioned, maxsplit=1)[0]:
        variables += clean(mentioned).split("\n")
    return clean(prompt), tuple(variables)


def _folder(messages: Sequence[WireMessage]) -> str:
    """The folder that the notebook works in, as the model was told."""
    for message in reversed(messages):
        if message.get("role") == "user":
            first = text_of(message).partition(CONTEXT_OPEN)[2].partition("\n")[0]
            _, found, folder = first.partition(FOLDER_OPEN)
            if found:
                return folder.removesuffix(".")
    return ""


def _steps(run: Sequence[WireMessage], clean: Clean) -> list[tuple[RecordedResult, ...]]:
    """The results that each turn of the model was given since the prompt; those of the first are empty."""
    steps: list[list[RecordedResult]] = [[]]
    names: dict[str, str] = {}
    for message in run:
        match message.get("role"):
            case "assistant":
                steps.append([])
                for call in message.get("tool_calls") or ():
                    names[str(call.get("id"))] = str(call["function"]["name"])
            case "tool":
                tool = names.get(str(message.get("tool_call_id")), "")
                steps[-1].append(RecordedResult(tool=tool, text=clean(text_of(message)), images=_images(message)))
            case _:
                pass
    return [tuple(step) for step in steps]


def _images(message: WireMessage) -> tuple[RecordedImage, ...]:
    return tuple(
        RecordedImage(sha256=one["digest"], media_type=one["media_type"], width=one["width"], height=one["height"])
        for one in message.get(IMAGES) or ()
        if one["digest"] and one["media_type"] in MEDIA_TYPES
    )


def _wire(result: RecordedResult) -> list[Any]:
    return [result.tool, result.text, len(result.images)]


def _summary(run: Sequence[WireMessage], clean: Clean) -> str:
    prompt, _ = _prompt(run, clean)
    told = [[_wire(result) for result in step] for step in _steps(run, clean)]
    said = [clean(text_of(message)) for message in run if message.get("role") == "assistant"]
    line = " ".join(prompt.split())
    short = line if len(line) <= _EARLIER_CHARACTERS else line[: _EARLIER_CHARACTERS - 1] + "…"
    return f"{short} ({_digest([prompt, told, said])})"


def _settings(request: ModelRequest, clean: Clean) -> Settings:
    # What the user's and the folder's files say differs where a recording is played.
    said = (text_of(message) for message in request.messages if message.get("role") == "system")
    texts = [text.partition(INSTRUCTIONS_OPEN)[0] for text in said]
    system = tuple(clean("\n".join(texts)).split("\n")) if texts else ()
    tools = tuple(mapped(tool.get("function", tool), clean) for tool in request.tools)
    return Settings(id=_digest([system, tools]), system=system, tools=tools)


def mapped(value: Any, clean: Clean) -> Any:
    """The value with every text in it cleaned, also the names in objects."""
    match value:
        case str():
            return clean(value)
        case dict():
            return {clean(name): mapped(one, clean) for name, one in value.items()}
        case list() | tuple():
            return [mapped(one, clean) for one in value]
        case _:
            return value
