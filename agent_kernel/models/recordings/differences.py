"""What a model is asked now beside what it was asked when it was recorded, as bounded text."""

import base64
import binascii
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from agent_kernel.models.recordings.asked import Question
from agent_kernel.models.recordings.format import (
    Asked,
    RecordedImage,
    RecordedResult,
    Recording,
    Turn,
    images_of,
    load_image,
)
from agent_kernel.models.recordings.pictures import picture_difference

_WIDTH = 44
"""Of one column at most, in characters."""
_ROWS = 12
_PARTS = 4
_COMPARED = 300
"""The most lines of each side that are compared, from the first that differs on."""
_LINE_CHARACTERS = 2_000
_EARLIER = "what was asked before in this conversation"
_VARIABLES = "the user's variables"


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the request that differs: two texts, or a sentence."""

    name: str
    recorded: Sequence[str] = ()
    now: Sequence[str] = ()
    sentence: str = ""


def parts(recording: Recording, turn: Turn, question: Question, data: Mapping[str, str]) -> list[Part]:
    """All that differs between what was recorded and what is asked now; images are compared where nothing else does.
    `data` are those of now, in base64 by digest."""
    then, now = turn.asked, question.asked
    found = [Part(name, before, after) for name, before, after in _texts(turn, question) if [*before] != [*after]]
    (system, tools), (system_now, tools_now) = (
        recording.compared(settings) for settings in (recording.settings[then.settings], question.settings)
    )
    if system != system_now:
        found.append(Part("the system text", system, system_now))
    if tools != tools_now:
        found.append(Part("the tools", _declared(tools), _declared(tools_now)))
    if not found and then.before != now.before:
        found.append(Part("an earlier step of this run", sentence="its calls had other results"))
    return found or list(_images(recording.path, then, now, data))


def _texts(turn: Turn, question: Question) -> Iterator[tuple[str, Sequence[str], Sequence[str]]]:
    """What is compared as texts: its name, and its lines then and now."""
    then, now = turn.asked, question.asked
    yield "the prompt", turn.prompt.split("\n"), question.prompt.split("\n")
    yield _EARLIER, then.earlier, now.earlier
    yield _VARIABLES, then.variables, now.variables
    yield "the effort", [str(then.effort)], [str(now.effort)]
    called, called_now = ([one.tool for one in asked.results] for asked in (then, now))
    yield "the calls that were answered", called, called_now
    for before, after in zip(then.results, now.results, strict=False) if called == called_now else ():
        yield _tool(after), before.text.split("\n"), after.text.split("\n")


def left_by_other_cells(found: Sequence[Part]) -> bool:
    """Whether all that differs is what other cells have left: they may have been run again, or in another order."""
    return bool(found) and all(part.name in (_EARLIER, _VARIABLES) for part in found)


def show(found: Sequence[Part]) -> str:
    """The parts as text, each with two columns."""
    shown = [_show(part) for part in found[:_PARTS]]
    if len(found) > _PARTS:
        shown.append(f"Other parts differ too: {', '.join(part.name for part in found[_PARTS : _PARTS + 10])}.")
    return "\n".join(shown)


def _show(part: Part) -> str:
    if part.sentence:
        return f"In {part.name}: {part.sentence}."
    rows = list(_rows(part.recorded, part.now))
    shown = [("recorded", "now"), *rows[:_ROWS]]
    width = max(len(before) for before, _ in shown)
    lines = [f"  {before:<{width}} | {now}".rstrip() for before, now in shown]
    more = len(rows) - _ROWS
    rest = [f"  ... and {more} more {'line differs' if more == 1 else 'lines differ'}"] if more > 0 else []
    return "\n".join([f"In {part.name}:", *lines, *rest])


def _rows(recorded: Sequence[str], now: Sequence[str]) -> Iterator[tuple[str, str]]:
    first = 0
    while first < min(len(recorded), len(now)) and recorded[first] == now[first]:
        first += 1
    left = [line[:_LINE_CHARACTERS] for line in recorded[first : first + _COMPARED]]
    right = [line[:_LINE_CHARACTERS] for line in now[first : first + _COMPARED]]
    for kind, a, b, c, d in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        if kind == "equal":
            continue
        for index in range(max(b - a, d - c)):
            before = left[a + index] if a + index < b else None
            after = right[c + index] if c + index < d else None
            yield _row(before, after)


def _row(before: str | None, after: str | None) -> tuple[str, str]:
    start = 0
    if before is not None and after is not None:
        while start < min(len(before), len(after)) and before[start] == after[start]:
            start += 1
        longest = max(len(before), len(after))
        start = 0 if longest <= _WIDTH else max(0, min(start - _WIDTH // 2, longest - _WIDTH))
    return _cut(before, start), _cut(after, start)


def _cut(line: str | None, start: int) -> str:
    if line is None:
        return "(no such line)"
    if not line:
        return "(empty)"
    text = f"…{line[start + 1 :]}" if start else line
    text = text.replace("\t", " ")
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"


def _tool(result: RecordedResult) -> str:
    return f"the result of {result.tool}" if result.tool else "the result of a call"


def _declared(tools: Mapping[str, Any]) -> list[str]:
    return [
        line
        for name, tool in tools.items()
        for line in (f"{name}:", *json.dumps(tool, indent=1, ensure_ascii=False).split("\n")[1:-1])
    ]


def _images(recording: Path, then: Asked, now: Asked, data: Mapping[str, str]) -> Iterator[Part]:
    counts = [[len(one.images), *(len(result.images) for result in one.results)] for one in (then, now)]
    if counts[0] != counts[1]:
        yield Part("the images", sentence=f"{len(then.all_images)} recorded, {len(now.all_images)} now")
        return
    names = ["an image of the prompt"] * len(now.images)
    names += [f"an image of {_tool(result)}" for result in now.results for _ in result.images]
    for name, before, after in zip(names, then.all_images, now.all_images, strict=True):
        if sentence := _difference(recording, before, after, data):
            yield Part(name, sentence=sentence)


def _difference(recording: Path, image: RecordedImage, now: RecordedImage, data: Mapping[str, str]) -> str:
    """How an image differs from the recorded one, as a sentence; empty where both show the same."""
    if image.sha256 == now.sha256:
        return ""
    name = f"{images_of(recording).name}/{image.file_name}"
    try:
        says = picture_difference(load_image(recording, image), base64.b64decode(data.get(now.sha256, "")))
    except (OSError, binascii.Error):
        return f"the recorded one, {name}, can't be read"
    return says and f"it is not {name}. {says.removesuffix('.')}"
