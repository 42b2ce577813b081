"""The names of models that record and replay.

    replay:PATH                      plays a recording; whatever differs stops the run
    replay:PATH --on-change warn     says what differs, and goes on with the recorded answer
    record:PATH                      records the default model
    record:PATH --model NAME         records this one

AGENT_KERNEL_REPLAY changes what all of them do: `strict` and `warn` play, `record` records again, `record:3` only the
third turn, `record:3-` the third and all after it.
"""

import re
from dataclasses import dataclass, replace

from agent_kernel.errors import ConfigurationError
from agent_kernel.protocol.vocabulary import OnChange

VARIABLE = "AGENT_KERNEL_REPLAY"
_ON_CHANGE = re.compile(r"\s+--on-change[= ](\S*)$")
_MODEL = re.compile(r"\s+--model[= ](\S.*)$")
_MODE = re.compile(r"record(?::([1-9]\d{0,8})(-?))?")


@dataclass(frozen=True, slots=True)
class TurnsToRecord:
    """The turns that are recorded again: those of these numbers, and what is not recorded yet."""

    first: int = 1
    last: int | None = None

    def covers(self, number: int) -> bool:
        return number >= self.first and (self.last is None or number <= self.last)


@dataclass(frozen=True, slots=True)
class RecordingName:
    """A model's name that is about a recording."""

    path: str
    records: bool
    on_change: OnChange = "strict"
    model: str | None = None
    """The model that is recorded; `None` is the default."""
    turns: TurnsToRecord = TurnsToRecord()


def read_name(text: str, mode: str = "") -> RecordingName | None:
    """The parts of a name; `None` for a name of something else. `mode` is the value of AGENT_KERNEL_REPLAY. Raises
    `ConfigurationError`."""
    kind, colon, rest = text.partition(":")
    if not colon or kind not in ("replay", "record"):
        return None
    on_change: OnChange = "strict"
    model: str | None = None
    if kind == "record" and (found := _MODEL.search(rest)) is not None:
        rest, model = rest[: found.start()], found[1].strip()
    elif kind == "replay" and (found := _ON_CHANGE.search(rest)) is not None:
        rest, on_change = rest[: found.start()], checked_on_change(found[1])
    path = rest.strip()
    if "://" in path or not path:
        raise ConfigurationError(f"{kind}: takes the path of a recording, not an address.")
    return _in_mode(RecordingName(path, kind == "record", on_change, model), mode.strip())


def checked_on_change(text: str) -> OnChange:
    """Raises `ConfigurationError`."""
    match text:
        case "strict" | "warn":
            return text
        case _:
            raise ConfigurationError(f"There is no --on-change {text}. Use strict or warn.")


def _in_mode(name: RecordingName, mode: str) -> RecordingName:
    match mode:
        case "":
            return name
        case "strict" | "warn":
            return replace(name, records=False, on_change=mode)
    found = _MODE.fullmatch(mode)
    if found is None:
        raise ConfigurationError(f"{VARIABLE} is strict, warn, record, record:N or record:N-, and not {mode!r}.")
    if found[1] is None:
        return replace(name, records=True)
    first = int(found[1])
    return replace(name, records=True, turns=TurnsToRecord(first, None if found[2] else first))
