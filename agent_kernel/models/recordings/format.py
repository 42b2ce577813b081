"""The file format of recordings, version 2: UTF-8, one JSON object a line.

    {"kind":"recording","version":2,"model":"gpt-5.2","made_with":"0.1.0","patterns":["order #"]}
    {"kind":"settings","id":"1f0c…","system":["You are…"],"tools":[{"name":"run_python",…}]}
    {"kind":"turn","prompt":"Sum it","step":0,"asked":{…},"answer":{"calls":[…]}}
    {"kind":"decision","prompt":"Sum it","tool":"run_python","digest":"77ab…","approved":true,"by":"user"}

The first line is the header. A turn has what the model was asked since its last turn, normalised by the rules of
`agent_kernel.models.recordings.normalise`, and what it answered. What all turns share, the system text and the tools'
declarations, stands once in a line of `settings`. Images are files beside the recording, `NAME.images/SHA256.png`.
Fields that are empty are left out; unknown ones are refused.

A turn may be written for an outcome instead, as those of the demo are, so that there is an answer to each decision:

    {"kind":"turn","prompt":"Sum it","step":1,"after":"denied","answer":{"content":"I leave it alone."}}
"""

import base64
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeInt,
    PositiveInt,
    TypeAdapter,
    ValidationError,
)

from agent_kernel.errors import ConfigurationError
from agent_kernel.protocol.decisions import ScriptedDecision
from agent_kernel.protocol.vocabulary import Effort, FinishReason
from agent_kernel.tools.builtin.safe_open import FileTooLarge, read_bytes, replace_file
from agent_kernel.tools.server_tools import CALL_TOOL, FIND_TOOLS

VERSION = 2
SUFFIX = ".jsonl"
LARGEST_FILE = 64 * 1024 * 1024
"""The largest recording that is read, in bytes."""
LONGEST_LINE = 8 * 1024 * 1024
"""The longest line that is read, in bytes."""
LARGEST_IMAGE = 20 * 1024 * 1024
"""The largest image file that is read, in bytes."""
MOST_PATTERNS = 50
RESTORE = (
    "Put the file back as it was (version control has it), or take the line out and record again what is missing: "
    "agent-kernel record NOTEBOOK."
)


class _Wire(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Header(_Wire):
    kind: Literal["recording"] = "recording"
    version: Literal[2] = 2
    title: str = ""
    model: str = ""
    """What was recorded; shown, never called."""
    notice: str = ""
    """Shown beside the answers."""
    made_with: str = ""
    images: bool = False
    """Whether the model took images."""
    patterns: tuple[Annotated[str, Field(min_length=2, max_length=200)], ...] = Field(
        default=(), max_length=MOST_PATTERNS
    )
    """The user's own rules (`normalise.own_pattern`)."""


class RecordedImage(_Wire):
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    media_type: Literal["image/png", "image/jpeg"]
    width: NonNegativeInt
    height: NonNegativeInt

    @property
    def file_name(self) -> str:
        return f"{self.sha256}.{'png' if self.media_type == 'image/png' else 'jpg'}"


class RecordedResult(_Wire):
    tool: str
    text: str = ""
    images: tuple[RecordedImage, ...] = ()


class Asked(_Wire):
    """What a model was asked, in normalised form. `prompt` and `step` of the turn are beside it."""

    settings: str = ""
    """The id of a line of settings."""
    effort: Effort | None = None
    variables: tuple[str, ...] = ()
    """The lines on the user's variables; only at step 0."""
    images: tuple[RecordedImage, ...] = ()
    """Those of the prompt; only at step 0."""
    results: tuple[RecordedResult, ...] = ()
    """Those of the calls of the last step."""
    before: str = ""
    """A digest of the steps of this run before that."""
    earlier: tuple[str, ...] = ()
    """The runs of the conversation before this one: the beginning of each prompt, and a digest of what followed."""

    @property
    def all_images(self) -> tuple[RecordedImage, ...]:
        return (*self.images, *(image for result in self.results for image in result.images))


class Settings(_Wire):
    kind: Literal["settings"] = "settings"
    id: str
    system: tuple[str, ...] = ()
    """The system text in lines."""
    tools: tuple[dict[str, Any], ...] = ()


class RecordedCall(_Wire):
    name: str
    arguments: dict[str, Any] | str = Field(default_factory=dict)
    """Arguments given as text are sent unchanged."""


class RecordedUsage(_Wire):
    input_tokens: NonNegativeInt = 0
    output_tokens: NonNegativeInt = 0


class Answer(_Wire):
    content: str = ""
    reasoning: str = ""
    calls: tuple[RecordedCall, ...] = ()
    finish_reason: FinishReason = "stop"
    failure: str = ""
    """As in `ModelTurn`."""
    usage: RecordedUsage = RecordedUsage()


After = Literal["start", "success", "denied", "error", "edited"]


class Turn(_Wire):
    kind: Literal["turn"] = "turn"
    prompt: str
    occurrence: PositiveInt = 1
    """Which run of this prompt, counted from 1 while it was recorded."""
    step: NonNegativeInt = 0
    """The number of the model's turns since the prompt."""
    after: After | None = None
    """What became of the calls of the step before (`start`: there was none). Such a turn is found by its prompt, its
    step and this alone."""
    asked: Asked = Asked()
    answer: Answer


class DecisionLine(_Wire):
    kind: Literal["decision"] = "decision"
    prompt: str
    occurrence: PositiveInt = 1
    tool: str | None = None
    digest: str | None = None
    """SHA-256 of the call's canonical arguments, as the recording has them: without keys."""
    arguments: dict[str, Any] | None = None
    """The call's arguments, for the message where another call has come."""
    approved: bool
    reason: str | None = None
    edited_input: dict[str, Any] | None = None
    """What a person put in place of the arguments."""
    answer: str | None = None
    """What a person answered to a question."""
    by: str = "user"

    @classmethod
    def of(cls, decision: ScriptedDecision, *, prompt: str, occurrence: int) -> "DecisionLine":
        fields = asdict(decision)
        del fields["recorded"]
        return cls(prompt=prompt, occurrence=occurrence, tool=fields.pop("tool_name"), **fields)

    @property
    def scripted(self) -> ScriptedDecision:
        fields = self.model_dump(exclude={"kind", "prompt", "occurrence", "tool", "by"})
        return ScriptedDecision(tool_name=self.tool, recorded=True, **fields)


Compared = tuple[tuple[str, ...], dict[str, Any]]
"""The part of settings that makes a difference: the system text, and declarations of tools by name."""
Line = Settings | Turn | DecisionLine
_LINE: TypeAdapter[Line] = TypeAdapter(Annotated[Line, Field(discriminator="kind")])


@dataclass(frozen=True, slots=True)
class Placed:
    """A turn and its place in the file."""

    turn: Turn
    line: int
    """Counted from 1."""
    number: int
    """The number among the turns, from 1, in the order of the file."""


@dataclass(frozen=True)
class Recording:
    path: Path
    header: Header
    settings: dict[str, Settings]
    turns: tuple[Placed, ...]
    decisions: tuple[DecisionLine, ...]
    rows: tuple[tuple[bytes, Line], ...]
    """The lines as they are and what they say, without the header."""

    @cached_property
    def called(self) -> frozenset[str]:
        """The names of the tools that its turns call, or were told results of."""
        turns = [placed.turn for placed in self.turns]
        return frozenset(call.name for turn in turns for call in turn.answer.calls) | {
            result.tool for turn in turns for result in turn.asked.results
        }

    def compared(self, settings: Settings) -> Compared:
        """What makes a difference of settings: of the tools those that the recording calls. Others may have been added,
        reworded or taken away, as an upgrade does. Those of servers may have come in the middle of a run, and a replay
        has them from its first turn on, as they were recorded."""
        declared = {str(tool.get("name", "")): tool for tool in settings.tools}
        names = sorted(name for name in self.called & declared.keys() if not is_of_servers(name))
        return settings.system, {name: declared[name] for name in names}


def images_of(recording: Path) -> Path:
    """The folder of a recording's images."""
    return recording.with_name(f"{recording.stem}.images")


def save_images(recording: Path, images: Iterable[RecordedImage], data: Mapping[str, str]) -> None:
    """Write those that are not there yet. `data` is base64 by digest. Raises `OSError`."""
    for image in images:
        path = images_of(recording) / image.file_name
        if image.sha256 in data and not path.exists():
            replace_file(Path(os.path.realpath(path)), base64.b64decode(data[image.sha256]))


def load_image(recording: Path, image: RecordedImage) -> bytes:
    """Raises `OSError`."""
    return read_bytes(Path(os.path.realpath(images_of(recording) / image.file_name)), LARGEST_IMAGE)


def is_of_servers(name: str) -> bool:
    """Whether a recorded tool of this name is an MCP server's, or the search for those."""
    return "__" in name or name in (FIND_TOOLS, CALL_TOOL)


def load(path: Path) -> Recording:
    """Read and validate a recording. Raises `ConfigurationError` with file, line and remedy."""
    return parse(path, read(path))


def read(path: Path) -> bytes:
    """The content of a recording's file, a regular one of bounded size. Raises `ConfigurationError`."""
    try:
        return read_bytes(Path(os.path.realpath(path)), LARGEST_FILE)
    except FileNotFoundError:
        raise ConfigurationError(
            f"There is no recording {path}. Make one with %%agent --record {path.name}, or name another."
        ) from None
    except FileTooLarge:
        raise ConfigurationError(
            f"{path} is larger than {LARGEST_FILE >> 20} MiB, so it is not read as a recording."
        ) from None
    except OSError as error:
        raise ConfigurationError(f"The recording {path} can't be read: {error.strerror}.") from None


def parse(path: Path, content: bytes) -> Recording:
    """As `load`, from the file's content."""
    first, *others = content.split(b"\n")
    header = _header(path, first)
    rows = [
        (number, row, _line(path, number, row, last=number == len(others) + 1))
        for number, row in enumerate(others, start=2)
        if row.strip()
    ]
    settings = {line.id: line for _, _, line in rows if isinstance(line, Settings)}
    turns = [(number, line) for number, _, line in rows if isinstance(line, Turn)]
    for number, turn in turns:
        if turn.after is None and turn.asked.settings not in settings:
            raise _refused(path, number, f"the line of settings {turn.asked.settings!r} is missing")
    return Recording(
        path,
        header,
        settings,
        turns=tuple(Placed(turn, line, number) for number, (line, turn) in enumerate(turns, start=1)),
        decisions=tuple(line for _, _, line in rows if isinstance(line, DecisionLine)),
        rows=tuple((row, line) for _, row, line in rows),
    )


def dumped(line: Header | Line) -> bytes:
    """A line for the file, without its end. Fields that have their default are left out, but for what it is."""
    content = line.model_dump(mode="json", include={"kind", "version"}) | line.model_dump(
        mode="json", exclude_defaults=True
    )
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()


def _header(path: Path, row: bytes) -> Header:
    """The header. Raises `ConfigurationError` for whatever is no recording, and for a newer one."""
    try:
        found = json.loads(row[:LONGEST_LINE])
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or found.get("kind") != "recording":
        raise ConfigurationError(
            f"{path}:1: this is not a recording of Agent Kernel, whose first line begins with "
            '{"kind":"recording". Name another file, or make one with %%agent --record PATH.'
        )
    version = found.get("version")
    if isinstance(version, int) and version > VERSION:
        raise ConfigurationError(
            f"{path}:1: this recording has version {version}, and this Agent Kernel plays versions up to {VERSION}. "
            "Upgrade it: pip install --upgrade . from a newer clone."
        )
    try:
        return Header.model_validate(found)
    except ValidationError as error:
        raise _refused(path, 1, _what_is_wrong(error)) from None


def _line(path: Path, number: int, row: bytes, *, last: bool) -> Line:
    if len(row) > LONGEST_LINE:
        raise _refused(path, number, f"the line is longer than {LONGEST_LINE >> 20} MiB")
    try:
        return _LINE.validate_json(row)
    except ValidationError as error:
        is_json = error.errors(include_url=False)[0]["type"] != "json_invalid"
        if last and not is_json:  # lines end with a line break, so what follows the last one was not written to its end
            raise ConfigurationError(
                f"{path}:{number}: the recording is cut off in the middle of this line. Take the line out, and record "
                "what is missing again: agent-kernel record NOTEBOOK."
            ) from None
        raise _refused(path, number, _what_is_wrong(error) if is_json else "this line is not JSON") from None


def _what_is_wrong(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    return f"not valid at {'.'.join(str(part) for part in first['loc']) or 'the line'}: {first['msg']}"


def _refused(path: Path, number: int, why: str) -> ConfigurationError:
    return ConfigurationError(f"{path}:{number}: {why}. {RESTORE}")
