"""Renders a run that has not ended for a saved notebook: what waits for a person, with its code, and the progress.

It has no times or durations, so that a notebook that is saved twice is the same file as long as nothing happens.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from agent_kernel.errors import InvalidArguments
from agent_kernel.protocol.figures import plural
from agent_kernel.protocol.run_results import RunProgress
from agent_kernel.protocol.views import RunView, ToolCallView
from agent_kernel.protocol.vocabulary import CallState
from agent_kernel.record import words
from agent_kernel.record.formats import CODE_LOOK, WITHIN_LOOK, html_prompt
from agent_kernel.record.markdown import escape_markdown, fence, safe_markdown
from agent_kernel.record.safety import escape, escape_prose
from agent_kernel.record.story import code_of, cost_nothing
from agent_kernel.tools.arguments import parse
from agent_kernel.tools.builtin.declarations import ASK_USER
from agent_kernel.tools.review.hidden import reveal, reveal_in_prose
from agent_kernel.tools.truncation import TextLimits, truncate

_PROMPT = TextLimits(characters=5_000, lines=100)
_CODE = TextLimits(characters=20_000, lines=400)
_NOTE = TextLimits(characters=2_000, lines=40)
_ALL_CODE = 100_000
_INTRAWORD = re.compile(r"(?<=\w)\\_(?=\w)")
"""An escaped underscore within a word, which needs no escape; without it names of tools can be searched for."""
_AHEAD = 60
_MOST_CALLS = 20
WAITING = words.STATES["awaiting_approval"]
AS_SAVED = "This is how it stood when the notebook was saved. It is answered in the notebook, where its kernel runs."


@dataclass(frozen=True, slots=True)
class _Open:
    """A call that runs or waits."""

    title: str
    notes: tuple[str, ...] = ()
    language: str = ""
    code: str = ""
    is_yours: bool = False


def render_so_far(progress: RunProgress, *, below_prompt: bool = False) -> dict[str, str]:
    """Render an open run as a MIME bundle, as `render_record` does for one that has ended."""
    run = progress.run.model_copy(update={"prompt": ""}) if below_prompt else progress.run
    found = sorted(_of_run(progress), key=attrgetter("is_yours"), reverse=True)
    shown = list(_bounded(found[:_MOST_CALLS]))
    head = f"Agent run: {_standing(run, found)}."
    policy = words.policy_words(run)
    model = words.model_words(run)  # a queued run has none yet
    facts = f"{model}, {policy}." if model else f"{policy[:1].upper()}{policy[1:]}."
    notes = [f"And {plural(len(found) - len(shown), 'more call')}."] if len(found) > len(shown) else []
    notes += [*_counted(progress.ended), AS_SAVED]
    return {
        "text/html": _to_html(run, f"<strong>{head}</strong> {escape_prose(facts)}", shown, notes),
        "text/markdown": _to_markdown(run, f"**{head}** {escape_markdown(facts)}", shown, notes),
        "text/plain": _to_plain(run, f"{head} {facts}", shown, notes),
    }


def _bounded(found: Sequence[_Open]) -> Iterator[_Open]:
    left = _ALL_CODE
    for one in found:
        code = truncate(one.code, _CODE).text
        left -= len(code)
        notes = tuple(truncate(note, _NOTE).text for note in one.notes)
        yield replace(one, code=code, notes=notes) if left >= 0 else replace(one, code="", notes=(words.LEFT_OUT,))


def _standing(run: RunView, found: Sequence[_Open]) -> str:
    if any(one.is_yours for one in found):
        return WAITING.lower()
    return "queued" if run.status == "queued" else "going on"


def _of_run(progress: RunProgress) -> Iterator[_Open]:
    run, calls = progress.run, progress.calls
    if run.status == "queued":
        yield _Open(_queued(progress))
        return
    if run.paused is not None:
        reached = words.paused(run.paused)
        yield _Open(f"{WAITING}: {reached}", (words.PAUSED_BEFORE,), is_yours=True)
    yield from map(_of_call, calls)
    if not calls and run.paused is None:
        waits = run.delay and words.DELAYS[run.delay.kind]
        yield _Open(waits or "Running: the model is at work")


def _queued(progress: RunProgress) -> str:
    if progress.ahead is None:
        return "Queued"
    line = " ".join(progress.ahead.prompt.split())
    line = line if len(line) <= _AHEAD else f"{line[: _AHEAD - 1]}…"
    return f"Queued behind “{line}”{', which waits for you' if progress.ahead_waits else ''}"


def _of_call(call: ToolCallView) -> _Open:
    name = _name(call)
    if call.tool_name == ASK_USER and call.state == "executing":
        return _Open(f"{WAITING}: {name}", _question(call), is_yours=True)
    language, code = code_of(call)
    notes = tuple(f"{found.title} {found.detail}".strip() for found in call.warnings)
    if call.state == "unknown":
        title = f"{WAITING}: {name}, {words.STATES['unknown'].lower()}"
        return _Open(title, (words.MAY_HAVE_RUN, *notes), language, code, is_yours=True)
    is_yours = call.state == "awaiting_approval"
    return _Open(f"{words.STATES[call.state]}: {name}", notes, language, code, is_yours)


def _name(call: ToolCallView) -> str:
    """What a call does, with its tool's name: `Run Python (run_python)`."""
    name, title = reveal(call.tool_name), words.title_of(call.tool_name, "")
    return f"{title} ({name})" if title else name


def _question(call: ToolCallView) -> tuple[str, ...]:
    try:
        asked = parse(call.tool_input)
    except InvalidArguments:
        return ()
    choices = asked.get("choices")
    listed = ", ".join(map(str, choices)) if isinstance(choices, list) else ""
    return tuple(filter(None, (str(asked.get("question", "")), f"To choose from: {listed}" if listed else "")))


def _counted(ended: Mapping[CallState, int]) -> list[str]:
    return [f"So far: {words.counted(ended)}."] if any(ended.values()) else []


def _to_html(run: RunView, head: str, found: Sequence[_Open], notes: Sequence[str]) -> str:
    parts = [f'<div class="agent-open" data-agent-open="{escape(run.run_id)}">', f"<p>{head}</p>"]
    if run.recorded:
        parts.append(f"<p>{escape(cost_nothing(run))}.</p>")
    if run.prompt.strip():
        parts.append(html_prompt(truncate(run.prompt, _PROMPT).text))
    for one in found:
        parts.append(f"<p><strong>{escape_prose(one.title)}</strong></p>")
        if one.code:
            parts.append(f"<pre{CODE_LOOK}><code{WITHIN_LOOK}>{escape(one.code)}</code></pre>")
        parts.extend(f"<p>{escape_prose(note)}</p>" for note in one.notes)
    parts.extend(f"<p>{escape_prose(note)}</p>" for note in notes)
    return "\n".join([*parts, "</div>"])


def _to_markdown(run: RunView, head: str, found: Sequence[_Open], notes: Sequence[str]) -> str:
    parts = [head, escape_markdown(f"{cost_nothing(run)}.")] if run.recorded else [head]
    if run.prompt.strip():
        parts.append(_quoted(safe_markdown(truncate(run.prompt, _PROMPT).text)))
    for one in found:
        parts.append(f"**{_INTRAWORD.sub('_', escape_markdown(one.title))}**")
        if one.code:
            parts.append(fence(one.code, one.language))
        parts.extend(map(escape_markdown, one.notes))
    return "\n\n".join([*parts, *map(escape_markdown, notes)])


def _to_plain(run: RunView, head: str, found: Sequence[_Open], notes: Sequence[str]) -> str:
    parts = [head, f"{cost_nothing(run)}."] if run.recorded else [head]
    if run.prompt.strip():
        parts.append(_quoted(truncate(run.prompt, _PROMPT).text.strip()))
    for one in found:
        parts.append(one.title)
        if one.code:
            parts.append("\n".join(f"    {line}".rstrip() for line in one.code.rstrip("\n").split("\n")))
        parts.extend(one.notes)
    return reveal_in_prose("\n\n".join([*parts, *notes]))


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.split("\n"))
