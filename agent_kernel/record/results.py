"""The results of a run: what its calls have shown, as outputs of the notebook below its record.

The notebook draws them with its own renderers, whatever their MIME types. Displays in the log may have any size and
shape, and must never prevent a notebook from being saved.
"""

import json
import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from agent_kernel.protocol.views import OutputView
from agent_kernel.protocol.vocabulary import RESULT_MARK
from agent_kernel.record.texts import bounded, in_sight, without_colours

MOST_RESULTS = 50
MOST_BYTES = 16 * 1024 * 1024
"""The most results of a run, and the most bytes that they take in the file. Plotly's script alone has 4.8 MB."""
MUCH = 1_000_000
"""Bytes that a run may add to a notebook without a word of it."""
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
"""A widget lives as long as its kernel; its text is beside it for whoever comes later."""

Place = Literal["here", "in sight", "left out"]
"""Where an output is: among the steps, in sight with the answer, or left out for lack of room."""

_MOST_TYPES = 20
_DEEPEST = 100
_METADATA = 65_536
_TYPE = re.compile(r"[\w!#$&^.+-]{1,100}/[\w!#$&^.+;=-]{1,150}")
_JSON_TYPE = re.compile(r"application/(.*\+)?json")
"""The MIME types whose data may be JSON by nbformat's rules; others are text."""
_ODD_JSON = re.compile(r"(application/vnd\..+)\.json")


@dataclass(frozen=True, slots=True)
class Result:
    """A display in nbformat."""

    data: dict[str, Any]
    metadata: dict[str, Any]
    size: int
    """The size of the data in bytes, without the metadata."""

    @property
    def output(self) -> dict[str, Any]:
        return {"output_type": "display_data", "data": self.data, "metadata": self.metadata}


class Results:
    """The results of one run."""

    def __init__(self, run: str, shown: Mapping[int, Sequence[OutputView]], failed: Container[int] = ()) -> None:
        """`shown` are the outputs of each call, by its number in the transcript; those of failed ones stay there, but
        for widgets. If there are too many, the last ones are kept, because a run's conclusions are at its end, and
        displays before printed texts, which their calls have too."""
        found = [
            ((call, number), _rich(output), output)
            for call, outputs in shown.items()
            for number, output in enumerate(outputs)
            if call not in failed or WIDGET_VIEW in output.data
        ]
        displays = [(place, data, output) for place, data, output in found if data]
        texts = [(place, data, output) for place, rich, output in found if not rich if (data := _plain(output))]
        kept: dict[tuple[int, int], Result] = {}
        left = MOST_BYTES
        for place, data, output in [*reversed(displays), *reversed(texts)]:
            size = _bytes(data) if len(kept) < MOST_RESULTS else None
            if size is not None and size <= left:
                left -= size
                kept[place] = Result(
                    data, _saved_metadata(output.metadata) | {RESULT_MARK: {"run": run, "call": place[0]}}, size
                )
        self._kept = dict(sorted(kept.items()))
        self._left_out = {place for place, _, _ in displays} - kept.keys()

    def place(self, call: int, number: int) -> Place:
        if (call, number) in self._kept:
            return "in sight"
        return "left out" if (call, number) in self._left_out else "here"

    @property
    def all(self) -> tuple[Result, ...]:
        return tuple(self._kept.values())


def elsewhere(place: Place, names: str) -> str:
    if place == "here" or not names:
        return ""
    if place == "in sight":
        return f"Shown with the answer: {names}."
    return f"Not shown: {names}. The outputs of this run are too many or too large."


def growth(size: int) -> str:
    """The words `its outputs add 2.7 MB to this notebook`; empty for less than 1 MB. `size` is in bytes."""
    return f"its outputs add {size / 1e6:.1f} MB to this notebook" if size > MUCH else ""


def _rich(output: OutputView) -> dict[str, Any]:
    """The data of a display that is more than a text; else empty."""
    data = saved_data(output.data) if output.kind == "display" else {}
    return data if data.keys() - {"text/plain"} else {}


def _plain(output: OutputView) -> dict[str, Any]:
    """The data of a printed text, or of a display that is no more than a text; else empty."""
    text: Any = joined(output.data.get("text/plain")) if output.kind == "display" else output.text
    if output.kind not in ("display", "stream") or not isinstance(text, str):
        return {}
    kept = bounded(text)
    return in_sight(kept) if without_colours(kept).strip() else {}


def saved_data(data: Mapping[str, Any]) -> dict[str, Any]:
    """A bundle that a notebook's file may contain. JSON goes by a name that says so: Altair 6 calls its charts
    `application/vnd.vegalite.v6.json`, which nbformat takes for text."""
    kinds = [kind for kind in data if _TYPE.fullmatch(kind)][:_MOST_TYPES]
    names = {kind: _ODD_JSON.sub(r"\1+json", kind) if isinstance(data[kind], dict) else kind for kind in kinds}
    saved = {names[kind]: joined(data[kind]) for kind in kinds}
    return {kind: value for kind, value in saved.items() if isinstance(value, str) or _JSON_TYPE.fullmatch(kind)}


def joined(value: Any) -> Any:
    """A text, which nbformat allows to be a list of lines."""
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        return "".join(value)
    return value


def _saved_metadata(metadata: dict[str, Any]) -> dict[str, Any]:
    size = _bytes(metadata)
    return dict(metadata) if size is not None and size <= _METADATA else {}


def _bytes(value: Any) -> int | None:
    """JSON data; `None` if it is invalid in a notebook's file or nested so deeply that saving might fail."""
    if _is_deep(value):
        return None
    try:
        return len(json.dumps(value, ensure_ascii=False, allow_nan=False).encode())
    except (TypeError, ValueError):
        return None


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(_DEEPEST):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True
