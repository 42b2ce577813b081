"""Renders the static record of a run that has ended, which needs no kernel, no script and no style."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from agent_kernel.protocol.views import MessageView, RunView, ToolCallView
from agent_kernel.record.formats import render_formats
from agent_kernel.record.results import Result
from agent_kernel.record.story import make_story

__all__ = ["Placed", "Result", "place_record", "render_record"]


@dataclass(frozen=True, slots=True)
class Placed:
    """A run's record and results, as they are placed in a notebook."""

    record: dict[str, str]
    """The record as a MIME bundle, without the results."""
    results: tuple[Result, ...]
    """What the run's calls have shown, as outputs that follow the record."""


def place_record(
    run: RunView, messages: Sequence[MessageView], tool_calls: Sequence[ToolCallView], *, below_prompt: bool = False
) -> Placed:
    """As `render_record`, for a notebook, in which the run's results are outputs of their own."""
    story = make_story(run, messages, tool_calls)
    bundle = render_formats(story, lambda pieces: (*pieces.opening, *pieces.ending), below_prompt=below_prompt)
    return Placed(bundle, story.results)


def render_record(
    run: RunView, messages: Sequence[MessageView], tool_calls: Sequence[ToolCallView], *, below_prompt: bool = False
) -> dict[str, str]:
    """A run as a MIME bundle: `text/html`, `text/markdown` and `text/plain`.

    `below_prompt` means that the record is in the output of the cell whose source is the prompt, which is then omitted.

    Everything that a model, a tool or a person wrote is sanitised or escaped. The plain text has no ids, times or
    durations; for a run of a recording the other two have none either, so that notebooks can be compared. Linear in the
    size of the run, and bounded: long texts are shortened, and the record says what is left out.
    """
    story = replace(make_story(run, messages, tool_calls), results=())
    return render_formats(story, lambda pieces: pieces.all, below_prompt=below_prompt)
