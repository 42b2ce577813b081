"""The record that stays when a run has ended: readable with no kernel, no script and no style."""

from collections.abc import Sequence
from dataclasses import replace

from agent_kernel.protocol.views import MessageView, RunView, ToolCallView
from agent_kernel.record.formats import to_html, to_markdown, to_plain
from agent_kernel.record.story import tell

__all__ = ["render_record"]


def render_record(
    run: RunView, messages: Sequence[MessageView], tool_calls: Sequence[ToolCallView], *, below_prompt: bool = False
) -> dict[str, str]:
    """A run as a MIME bundle: `text/html`, `text/markdown` and `text/plain`.

    `below_prompt`: it stands in the output of the cell whose source is the prompt, which is not said again.

    Everything that a model, a tool or a person wrote is sanitised or escaped. The plain text has no ids, times or
    durations; for a recorded run the other two have none either, so that notebooks can be compared. Linear in the size
    of the run, and bounded: long texts are shortened, what is too much is left out and said to be.
    """
    story = tell(run, messages, tool_calls)
    if below_prompt:
        story = replace(story, prompt="")
    return {"text/html": to_html(story), "text/markdown": to_markdown(story), "text/plain": to_plain(story)}
