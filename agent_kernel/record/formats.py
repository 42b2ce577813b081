"""Renders the record as HTML, Markdown and plain text, without scripts or style sheets, for all kinds of readers."""

import html
from collections.abc import Sequence
from typing import assert_never

from agent_kernel.record import words
from agent_kernel.record.formulas import from_latex
from agent_kernel.record.markdown import code_span, escape_markdown, fence, markdown_message, safe_markdown
from agent_kernel.record.record_outputs import RecordOutput
from agent_kernel.record.safety import clean, escape, escape_message, escape_prose, render
from agent_kernel.record.story import Aside, Part, RecordCall, Story, text_of
from agent_kernel.tools.review.hidden import reveal, reveal_in_prose
from agent_kernel.tools.truncation import TextLimits, truncate

_CODE = TextLimits(characters=200_000, lines=10_000)
_NOTE = TextLimits(characters=5_000, lines=100)
_PROMPT = TextLimits(characters=20_000, lines=1_000)
_SHORT_PROMPT = TextLimits(characters=400, lines=6)
_FIRST_WORDS = 100
_BODIES = 2_000_000
_PICTURES = 8_000_000
_LEFT_OUT = f"<p>{words.LEFT_OUT}</p>"

# Both survive JupyterLab's sanitiser, also in untrusted notebooks, and suit light and dark pages. Where no style
# survives, as on GitHub, code and output still differ: only code is a `code` element.
CODE_LOOK = ' style="background-color: rgba(128, 128, 128, 0.12); padding: 8px 10px"'
OUTPUT_LOOK = (
    ' style="font-family: var(--jp-code-font-family, monospace); border-left: 3px solid #888888; padding: 2px 10px; '
    'max-height: 420px; overflow: auto"'
)
WITHIN_LOOK = ' style="background-color: rgba(0, 0, 0, 0)"'
_CALL_LOOK = ' style="margin: 6px 0 8px"'
_PLACE_LOOK = ' style="overflow-x: auto; overflow-y: hidden"'
"""Wide content scrolls in its place and paints over nothing beside it."""
_VARIES = ' data-role="varies"'
"""Marks what may differ between a run and its replay: `agent_kernel.record.comparable` leaves it out."""


class _Room:
    """The characters that a record may still contain."""

    def __init__(self, characters: int) -> None:
        self._left = characters

    def take(self, characters: int) -> bool:
        if characters > self._left:
            return False
        self._left -= characters
        return True


def to_html(story: Story) -> str:
    room, pictures = _Room(_BODIES), _Room(_PICTURES)
    parts = [
        f'<div class="agent-record" data-agent-record="{escape(story.run_id)}">',
        f"<p><strong>Agent run: {story.status}.</strong> {_html_parts(_head(story))}</p>",
    ]
    if story.recorded:
        parts.append(f"<p{_VARIES}>{escape(story.recorded)}</p>")
    if story.prompt.strip():
        parts.append(html_prompt(story.prompt))
    if story.error:
        parts.append(_html_error(truncate(story.error, _NOTE).text))
    if story.never_begun:
        return "\n".join([*parts, *(f"<p>{escape_prose(line)}</p>" for line in _why_never_begun(story)), "</div>"])
    parts.extend(f'<div data-role="answer"{_PLACE_LOOK}>{_html_prose(answer, room)}</div>' for answer in story.answers)
    calls = [item for item in story.transcript if isinstance(item, RecordCall)]
    raised = [output for call in calls for output in call.outputs if output.place == "above"]
    parts.extend(_html_output(output, room, pictures) for output in raised)
    if story.transcript:
        parts.append(f"<details{_CALL_LOOK}><summary>{story.calls_line}</summary>")
        for item in story.transcript:
            parts.append(_html_aside(item, room) if isinstance(item, Aside) else _html_call(item, room, pictures))
        parts.append("</details>")
    if story.growth:
        parts.append(f"<p{_VARIES}>{escape(story.growth)}</p>")
    return "\n".join([*parts, "</div>"])


def _head(story: Story) -> tuple[Part, ...]:
    return (*story.facts, Part(f" {story.figures}", varies=True)) if story.figures else story.facts


def _html_parts(parts: Sequence[Part]) -> str:
    shown = ((part, escape_prose(part.text)) for part in parts)
    return "".join(f"<span{_VARIES}>{text}</span>" if part.varies else text for part, text in shown)


def _html_error(text: str) -> str:
    if "\n" not in text:
        return f'<p data-role="error">{escape_message(text)}</p>'
    return f'<pre data-role="error"{OUTPUT_LOOK}>{escape(text)}</pre>'


def html_prompt(prompt: str) -> str:
    """The prompt as it was written, because Markdown or HTML in it was meant for the model."""
    text = truncate(prompt.strip("\n"), _PROMPT).text
    if "\n" not in text and len(text) <= _SHORT_PROMPT.characters:
        return f"<blockquote><p>{escape_prose(text)}</p></blockquote>"
    whole = f"<blockquote><pre>{html.escape(reveal_in_prose(text))}</pre></blockquote>"
    if not truncate(text, _SHORT_PROMPT).truncated:
        return whole
    return f"<details><summary>{words.PROMPT}: {escape_prose(_first_words(text))}</summary>\n{whole}\n</details>"


def _first_words(text: str) -> str:
    line = next((line.strip() for line in text.split("\n") if line.strip()), "")
    return line if len(line) <= _FIRST_WORDS else f"{line[: _FIRST_WORDS - 3].rstrip()}..."


def _html_prose(text: str, room: _Room) -> str:
    return _with_looks(render(text)) if room.take(len(text)) else f"<p>{words.LEFT_OUT}</p>"


def _with_looks(rendered: str) -> str:
    """Style Markdown's code blocks as the code of calls."""
    return rendered.replace("<pre><code", f"<pre{CODE_LOOK}><code{WITHIN_LOOK}")


def _html_aside(aside: Aside, room: _Room) -> str:
    if not aside.detail:
        return f"<div{_VARIES if aside.varies else ''}{_PLACE_LOOK}>{_html_prose(aside.text, room)}</div>"
    inside = _html_prose(aside.detail, room)
    return f"<details><summary>{escape_prose(aside.text)}</summary>\n{inside}\n</details>"


def _html_call(call: RecordCall, room: _Room, pictures: _Room) -> str:
    summary = f" <code>{escape(call.summary)}</code>" if call.summary else ""
    head = f"<summary><code>{escape(call.tool_name)}</code>{summary}: {_html_parts(call.ending)}</summary>"
    body = [f"<details{_CALL_LOOK}{' open' if call.is_open else ''}>{head}"]
    body.extend(
        f"<p><strong>{escape_prose(found.title)}</strong> {escape_prose(found.detail)}</p>" for found in call.warnings
    )
    body.extend(f"<p>{escape_prose(truncate(note, _NOTE).text)}</p>" for note in call.notes)
    if call.output_file:
        body.append(f"<p{_VARIES}>{escape_prose(call.output_file)}</p>")
    if call.code:
        fits = room.take(len(call.code))
        body.insert(1, _html_code(call) if fits else f"<p>{words.LEFT_OUT}</p>")
    for output in call.outputs:
        if elsewhere := words.elsewhere(output.place, output.name):
            body.append(f"<p>{escape(elsewhere)}</p>")
        if output.place in ("above", "below"):
            continue
        shown = _html_output(output, room, pictures)
        body.append(shown)
        if shown == _LEFT_OUT:
            break
    return "\n".join([*body, "</details>"])


def _html_code(call: RecordCall) -> str:
    """The code with CSS classes by which the JupyterLab extension finds what can be copied or become a cell, also in an
    untrusted notebook: `agent-cell-3` is the third cell of the run."""
    code = truncate(call.code, _CODE)
    mark = ""
    if call.tool_name == "run_python" and not code.truncated:
        number = f" agent-cell-{call.cell}" if call.cell is not None else ""
        mark = f' class="agent-code language-{call.language}{number}"'
    return f"<pre{CODE_LOOK}><code{mark}{WITHIN_LOOK}>{escape(code.text)}</code></pre>"


def _html_output(output: RecordOutput, room: _Room, pictures: _Room) -> str:
    if not (pictures if output.kind == "image" else room).take(output.size):
        return _LEFT_OUT
    match output.kind:
        case "text" | "error":
            return _html_text(output.text)
        case "markdown":
            return f"<div{_PLACE_LOOK}>{_with_looks(render(output.text))}</div>"
        case "latex":
            formulas = from_latex(output.text)
            return f"<div{_PLACE_LOOK}>{render(formulas)}</div>" if formulas else _html_text(output.text)
        case "html":
            cleaned = clean(output.text)
            return f"<div{_PLACE_LOOK}>{cleaned}</div>" if cleaned else _html_text(output.plain or words.NOT_KEPT)
        case "image":
            source = f"data:{output.image_type};base64,{output.image}"
            return f'<p><img alt="{escape(output.text)}" src="{source}"></p>'
        case _:
            assert_never(output.kind)


def _html_text(text: str) -> str:
    return f"<pre{OUTPUT_LOOK}>{escape(text)}</pre>"


def _why_never_begun(story: Story) -> list[str]:
    """The lines of a run that never began, which are not folded, because there is nothing else to read."""
    return [*(item.text for item in story.transcript if isinstance(item, Aside)), words.NEVER_BEGUN]


def to_markdown(story: Story) -> str:
    room = _Room(_BODIES)
    figures = f" {escape_markdown(story.figures)}" if story.figures else ""
    parts = [f"**Agent run: {story.status}.** {escape_markdown(text_of(story.facts))}{figures}"]
    if story.recorded:
        parts.append(escape_markdown(story.recorded))
    if story.prompt.strip():
        parts.append(_markdown_prompt(story.prompt))
    if story.error:
        error = truncate(story.error, _NOTE).text
        parts.append(fence(error, "text") if "\n" in error else markdown_message(error))
    if story.never_begun:
        return "\n\n".join([*parts, *map(escape_markdown, _why_never_begun(story))])
    parts.extend(_markdown_prose(answer, room) for answer in story.answers)
    if story.transcript:
        parts.append(f"<details>\n<summary>{story.calls_line}</summary>")
        for item in story.transcript:
            parts.append(_markdown_call(item, room) if isinstance(item, RecordCall) else _markdown_aside(item, room))
        parts.append("</details>")
    parts.append(story.growth)
    return "\n\n".join(part for part in parts if part)


def _markdown_prompt(prompt: str) -> str:
    text = truncate(prompt.strip("\n"), _PROMPT).text
    if "\n" not in text and len(text) <= _SHORT_PROMPT.characters:
        return f"> {escape_markdown(text)}"
    if not truncate(text, _SHORT_PROMPT).truncated:
        return fence(text, "text")
    summary = f"{words.PROMPT}: {escape_prose(_first_words(text))}"
    return f"<details>\n<summary>{summary}</summary>\n\n{fence(text, 'text')}\n\n</details>"


def _markdown_prose(text: str, room: _Room) -> str:
    return safe_markdown(text) if room.take(len(text)) else words.LEFT_OUT


def _markdown_aside(aside: Aside, room: _Room) -> str:
    if not aside.detail:
        return _markdown_prose(aside.text, room)
    inside = _markdown_prose(aside.detail, room)
    return f"<details>\n<summary>{escape_prose(aside.text)}</summary>\n\n{inside}\n\n</details>"


def _markdown_call(call: RecordCall, room: _Room) -> str:
    head = " ".join(part for part in (code_span(call.tool_name), code_span(call.summary)) if part)
    body = [f"{head}: {escape_markdown(text_of(call.ending))}"]
    if call.code:
        fits = room.take(len(call.code))
        body.append(fence(truncate(call.code, _CODE).text, call.language) if fits else words.LEFT_OUT)
    body.extend(
        f"**{escape_markdown(found.title)}** {escape_markdown(found.detail)}".strip() for found in call.warnings
    )
    body.extend(escape_markdown(truncate(note, _NOTE).text) for note in (*call.notes, call.output_file) if note)
    for output in call.outputs:
        if output.place in ("below", "left out"):
            body.append(escape_markdown(words.elsewhere(output.place, output.name)))
        if output.place == "below":
            continue
        shown = _markdown_output(output) if output.kind == "image" or room.take(output.size) else words.LEFT_OUT
        body.append(shown)
        if shown == words.LEFT_OUT:
            break
    return "\n\n".join(body)


def _markdown_output(output: RecordOutput) -> str:
    match output.kind:
        case "text" | "error":
            return fence(output.text)
        case "markdown":
            return safe_markdown(output.text)
        case "latex":
            formulas = from_latex(output.text)
            return safe_markdown(formulas) if formulas else fence(output.text, "latex")
        case "html":
            return fence(output.plain) if output.plain else "(a table or other HTML: see the notebook)"
        case "image":
            return f"({escape_markdown(output.text)}: see the notebook)"
        case _:
            assert_never(output.kind)


def to_plain(story: Story) -> str:
    """The plain text, without ids, times or durations, because notebooks are compared by it."""
    parts = [f"Agent run: {story.status}. {text_of(story.facts)}"]
    if story.recorded:
        parts.append(story.recorded)
    if story.prompt.strip():
        prompt = truncate(story.prompt.strip("\n"), _PROMPT).text
        parts.append("\n".join(f"> {line}".rstrip() for line in prompt.split("\n")))
    if story.error:
        parts.append(truncate(story.error, _NOTE).text)
    if story.never_begun:
        parts.extend(_why_never_begun(story))
    parts.extend(truncate(answer.strip(), _CODE).text for answer in story.answers)
    if calls := _plain_calls(story):
        parts.append("\n".join([story.calls_line, *calls]))
    return reveal_in_prose("\n\n".join(parts))


def _plain_calls(story: Story) -> list[str]:
    lines: list[str] = []
    number = 0
    for item in story.transcript:
        if isinstance(item, Aside):
            continue
        number += 1
        summary = f" {item.summary}" if item.summary else ""
        lines.append(f"{number}. {reveal(item.tool_name)}{summary}: {item.plain_ending}")
        lines.extend(f"   {note}" for note in item.plain_notes)
        named = [(output.place, output.name) for output in item.outputs if output.place in ("below", "left out")]
        lines.extend(f"   {words.elsewhere(place, name)}" for place, name in named)
    return lines
