"""Renders the record as HTML, Markdown and plain text, without scripts or style sheets, for all kinds of readers."""

import html
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import assert_never

from agent_kernel.record import words
from agent_kernel.record.formulas import from_latex
from agent_kernel.record.markdown import code_span, escape_markdown, fence, markdown_message, safe_markdown
from agent_kernel.record.record_outputs import RecordOutput
from agent_kernel.record.safety import clean, escape, escape_message, escape_prose, render
from agent_kernel.record.story import Aside, Part, RecordCall, Story, text_of
from agent_kernel.record.texts import OUTPUT_LOOK, coloured, framed, in_sight
from agent_kernel.tools.review.hidden import reveal, reveal_in_prose
from agent_kernel.tools.truncation import TextLimits, truncate

_CODE = TextLimits(characters=200_000, lines=10_000)
_NOTE = TextLimits(characters=5_000, lines=100)
_PROMPT = TextLimits(characters=20_000, lines=1_000)
_SHORT_PROMPT = TextLimits(characters=400, lines=6)
_FIRST_WORDS = 100
_BODIES = 2_000_000
_PICTURES = 8_000_000
_PLAIN = 100_000
_LEFT_OUT = f"<p>{words.LEFT_OUT}</p>"

# These survive JupyterLab's sanitiser, also in untrusted notebooks, and suit light and dark pages. Where no style
# survives, as on GitHub, code and output still differ: only code is a `code` element.
CODE_LOOK = ' style="background-color: rgba(128, 128, 128, 0.12); padding: 8px 10px"'
WITHIN_LOOK = ' style="background-color: rgba(0, 0, 0, 0)"'
_LINE_LOOK = ' style="opacity: 0.75; margin: 4px 0"'
_SHOWN_LOOK = ' style="font-family: var(--jp-code-font-family, monospace); margin: 6px 0; overflow: auto"'
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


@dataclass(frozen=True, slots=True)
class Pieces:
    """A record in one format."""

    opening: tuple[str, ...]
    """The prompt and the answer, or why there is none."""
    shown: tuple[str, ...]
    """What calls have shown, unless it follows as outputs of the notebook."""
    ending: tuple[str, ...]
    """The steps, folded, and the line of administration."""

    @property
    def all(self) -> tuple[str, ...]:
        return (*self.opening, *self.shown, *self.ending)


def render_formats(story: Story, part: Callable[[Pieces], Sequence[str]], *, below_prompt: bool) -> dict[str, str]:
    """A part of the record as a MIME bundle, without the prompt where that stands above it."""
    story = replace(story, prompt="") if below_prompt else story
    opening = f'<div class="agent-record" data-agent-record="{escape(story.run_id)}">'
    return {
        "text/html": "\n".join([opening, *part(_html_pieces(story)), "</div>"]),
        "text/markdown": "\n\n".join(piece for piece in part(_markdown_pieces(story)) if piece),
        "text/plain": reveal_in_prose("\n\n".join(part(_plain_pieces(story)))),
    }


def _html_pieces(story: Story) -> Pieces:
    room, pictures = _Room(_BODIES), _Room(_PICTURES)
    parts = [f"<p><strong>{story.opening}</strong></p>"] if story.opening else []
    if story.prompt.strip():
        parts.append(html_prompt(story.prompt))
    if story.error:
        parts.append(_html_error(truncate(story.error, _NOTE).text))
    line = f"<p{_LINE_LOOK}><small>{_html_parts(_line(story))}</small></p>"
    if story.never_begun:
        return Pieces((*parts, *(f"<p>{escape_prose(why)}</p>" for why in _why_never_begun(story))), (), (line,))
    parts.extend(f'<div data-role="answer"{_PLACE_LOOK}>{_html_prose(answer, room)}</div>' for answer in story.answers)
    shown = tuple(_html_shown(output, room, pictures) for output in _in_sight(story))
    ending = [f"<details{_CALL_LOOK}><summary>{story.calls_line}</summary>"] if story.transcript else []
    for item in story.transcript:
        ending.append(_html_aside(item, room) if isinstance(item, Aside) else _html_call(item, room, pictures))
    if story.took:
        ending.append(f"<p{_LINE_LOOK}{_VARIES}><small>{story.took}</small></p>")
    return Pieces(tuple(parts), shown, (*ending, "</details>", line) if story.transcript else (line,))


def _in_sight(story: Story) -> list[RecordOutput]:
    calls = (item for item in story.transcript if isinstance(item, RecordCall))
    return [output for call in calls for output in call.outputs if output.place == "in sight"]


def _line(story: Story) -> tuple[Part, ...]:
    parts = story.line
    for more in (story.figures, (Part(story.growth, varies=True),) if story.growth else ()):
        parts = (*parts, Part(" · ", varies=True), *more) if more else parts
    return parts


def _html_parts(parts: Sequence[Part]) -> str:
    """Neighbours that vary share a mark."""
    pieces: list[str] = []
    for varies, group in itertools.groupby(parts, key=attrgetter("varies")):
        text = "".join(_html_part(part) for part in group)
        pieces.append(f"<span{_VARIES}>{text}</span>" if varies else text)
    return "".join(pieces)


def _html_part(part: Part) -> str:
    text = escape_prose(part.text)
    return f'<time datetime="{escape(part.moment)}">{text}</time>' if part.moment else text


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
    head = f"<summary>{_html_title(call)}: {_html_parts(call.ending)}</summary>"
    body = [f'<details class="agent-call"{_CALL_LOOK}{" open" if call.is_open else ""}>{head}']
    body.extend(
        f"<p><strong>{escape_prose(found.title)}</strong> {escape_prose(found.detail)}</p>" for found in call.warnings
    )
    body.extend(f"<p>{escape_prose(truncate(note, _NOTE).text)}</p>" for note in call.notes)
    if call.output_file:
        body.append(f"<p{_VARIES}>{escape_prose(call.output_file)}</p>")
    if call.code:
        fits = room.take(len(call.code))
        body.insert(1, _html_code(call) if fits else f"<p>{words.LEFT_OUT}</p>")
    body.extend(f"<p>{escape(elsewhere)}</p>" for elsewhere in call.elsewhere)
    for output in call.outputs:
        if output.place == "in sight":
            continue
        shown = _html_output(output, room, pictures)
        body.append(shown)
        if shown == _LEFT_OUT:
            break
    return "\n".join([*body, "</details>"])


def _html_title(call: RecordCall) -> str:
    """`Read <code>sales.csv</code> <small>(read_file)</small>`; tools that are not built in have their name first."""
    name, summary = escape(call.tool_name), f" <code>{escape(call.summary)}</code>" if call.summary else ""
    return f"{call.title}{summary} <small>({name})</small>" if call.title else f"<code>{name}</code>{summary}"


def _html_code(call: RecordCall) -> str:
    """The code with CSS classes by which the JupyterLab extension finds what can be copied or become a cell, also in an
    untrusted notebook: `agent-cell-3` is the third cell of the run."""
    code = truncate(call.code, _CODE)
    mark = ""
    if call.tool_name == "run_python" and not code.truncated:
        number = f" agent-cell-{call.cell}" if call.cell is not None else ""
        mark = f' class="agent-code language-{call.language}{number}"'
    return f"<pre{CODE_LOOK}><code{mark}{WITHIN_LOOK}>{escape(code.text)}</code></pre>"


def _html_shown(output: RecordOutput, room: _Room, pictures: _Room) -> str:
    """An output in sight, as a cell has it. A text that is folded has its frame as those of the transcript have."""
    if output.kind != "text" or not room.take(output.size):
        return _html_output(output, room, pictures)
    return in_sight(output.text).get("text/html") or f"<pre{_SHOWN_LOOK}>{coloured(output.text)}</pre>"


def _html_output(output: RecordOutput, room: _Room, pictures: _Room) -> str:
    if not (pictures if output.kind == "image" else room).take(output.size):
        return _LEFT_OUT
    match output.kind:
        case "text" | "error":
            return framed(output.text)
        case "markdown":
            return f"<div{_PLACE_LOOK}>{_with_looks(render(output.text))}</div>"
        case "latex":
            formulas = from_latex(output.text)
            return f"<div{_PLACE_LOOK}>{render(formulas)}</div>" if formulas else framed(output.text)
        case "html":
            cleaned = clean(output.text)
            return f"<div{_PLACE_LOOK}>{cleaned}</div>" if cleaned else framed(output.plain or words.NOT_KEPT)
        case "image":
            source = f"data:{output.image_type};base64,{output.image}"
            return f'<p><img alt="{escape(output.text)}" src="{source}"></p>'
        case _:
            assert_never(output.kind)


def _why_never_begun(story: Story) -> list[str]:
    """The lines of a run that never began, which are not folded, because there is nothing else to read."""
    return [*(item.text for item in story.transcript if isinstance(item, Aside)), words.NEVER_BEGUN]


def _markdown_pieces(story: Story) -> Pieces:
    room = _Room(_BODIES)
    parts = [f"**{story.opening}**"] if story.opening else []
    if story.prompt.strip():
        parts.append(_markdown_prompt(story.prompt))
    if story.error:
        error = truncate(story.error, _NOTE).text
        parts.append(fence(error, "text") if "\n" in error else markdown_message(error))
    line = escape_markdown(text_of(_line(story)))
    if story.never_begun:
        return Pieces((*parts, *map(escape_markdown, _why_never_begun(story))), (), (line,))
    parts.extend(_markdown_prose(answer, room) for answer in story.answers)
    shown = tuple(_markdown_output(output, room) for output in _in_sight(story))
    ending = [f"<details>\n<summary>{story.calls_line}</summary>"] if story.transcript else []
    for item in story.transcript:
        ending.append(_markdown_call(item, room) if isinstance(item, RecordCall) else _markdown_aside(item, room))
    if story.took:
        ending.append(story.took)
    return Pieces(tuple(parts), shown, (*ending, "</details>", line) if story.transcript else (line,))


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
    name, summary = code_span(call.tool_name), code_span(call.summary)
    parts = (call.title, summary, f"({name})") if call.title else (name, summary)
    head = " ".join(part for part in parts if part)
    body = [f"{head}: {escape_markdown(text_of(call.ending))}"]
    if call.code:
        fits = room.take(len(call.code))
        body.append(fence(truncate(call.code, _CODE).text, call.language) if fits else words.LEFT_OUT)
    body.extend(
        f"**{escape_markdown(found.title)}** {escape_markdown(found.detail)}".strip() for found in call.warnings
    )
    body.extend(escape_markdown(truncate(note, _NOTE).text) for note in (*call.notes, call.output_file) if note)
    body.extend(map(escape_markdown, call.elsewhere))
    for output in call.outputs:
        if output.place == "in sight":
            continue
        shown = _markdown_output(output, room)
        body.append(shown)
        if shown == words.LEFT_OUT:
            break
    return "\n\n".join(body)


def _markdown_output(output: RecordOutput, room: _Room) -> str:
    if output.kind != "image" and not room.take(output.size):
        return words.LEFT_OUT
    match output.kind:
        case "text" | "error":
            return fence(output.plain)
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


def _plain_pieces(story: Story) -> Pieces:
    """The plain text, without ids, times or durations, because notebooks are compared by it."""
    parts = [story.opening] if story.opening else []
    if story.prompt.strip():
        prompt = truncate(story.prompt.strip("\n"), _PROMPT).text
        parts.append("\n".join(f"> {line}".rstrip() for line in prompt.split("\n")))
    if story.error:
        parts.append(truncate(story.error, _NOTE).text)
    if story.never_begun:
        parts.extend(_why_never_begun(story))
    parts.extend(truncate(answer.strip(), _CODE).text for answer in story.answers)
    room = _Room(_PLAIN)
    shown = tuple(_plain_output(output, room) for output in _in_sight(story))
    calls = _plain_calls(story)
    line = text_of(story.line)
    return Pieces(tuple(parts), shown, ("\n".join([story.calls_line, *calls]), line) if calls else (line,))


def _plain_output(output: RecordOutput, room: _Room) -> str:
    text = f"({output.name})" if output.kind == "image" else output.plain or output.text
    return text if room.take(len(text)) else words.LEFT_OUT


def _plain_calls(story: Story) -> list[str]:
    lines: list[str] = []
    number = 0
    for item in story.transcript:
        if isinstance(item, Aside):
            continue
        number += 1
        name = reveal(item.tool_name)
        parts = (item.title, item.summary, f"({name})") if item.title else (name, item.summary)
        lines.append(f"{number}. {' '.join(filter(None, parts))}: {text_of(item.ending)}")
        lines.extend(f"   {note}" for note in item.plain_notes)
        lines.extend(f"   {elsewhere}" for elsewhere in item.elsewhere)
    return lines
