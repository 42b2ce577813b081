"""A terminal as lines: what is new in a conversation, and what a person types.

Whatever a model, a tool or a file says has a margin on every line, wrapped ones too, and no character that acts on the
terminal: only this program writes into the first column.
"""

import asyncio
import json
import os
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import suppress
from typing import TextIO

from agent_kernel.protocol.figures import spent
from agent_kernel.protocol.views import ConversationView, RunView, ToolCallView
from agent_kernel.record import words
from agent_kernel.record.record_outputs import settled_outputs, shown_outputs
from agent_kernel.record.results import Results
from agent_kernel.record.story import arguments_of, describe, text_of
from agent_kernel.tools.builtin.declarations import ASK_USER
from agent_kernel.tools.review.hidden import reveal, reveal_in_prose
from agent_kernel.tools.truncation import TextLimits, truncate

if sys.platform != "win32":
    import termios

MARGIN, CODE_MARGIN, OUTPUT_MARGIN = "  ", "  │ ", "    "
NARROWEST = 24
"""The fewest columns that are reckoned with."""
MOST_OUTPUT = TextLimits(characters=20_000, lines=200)
"""The most of a call's outputs that is printed."""


def one_line(text: str, most: int = 1_000) -> str:
    """The beginning of a text as a line."""
    return " ".join(text[:most].split()) + ("…" if len(text) > most else "")


class Terminal:
    """Whatever is written has each hidden character and each control character written out, as `U+001B`."""

    def __init__(self, out: TextIO, columns: Callable[[], int]) -> None:
        """`columns` gives the width as it is now."""
        self._out = out
        self._columns = columns

    def line(self, text: str, margin: str = MARGIN, first: str | None = None) -> None:
        """Write whole lines; `first` is the margin of the first one."""
        begin = margin if first is None else first
        room = max(NARROWEST, self._columns()) - 1  # some terminals begin a new line when the last one is full
        for line in reveal_in_prose(text.replace("\r\n", "\n").rstrip("\n")).split("\n"):
            wrapper = textwrap.TextWrapper(room if line.isascii() else room // 2, begin, margin)  # two columns at most
            wrapper.drop_whitespace = wrapper.replace_whitespace = wrapper.break_on_hyphens = False
            self._out.write("\n".join(wrapper.wrap(line) or [margin.rstrip()]) + "\n")
            begin = margin
        self._out.flush()

    def ask(self, question: str) -> None:
        """A question, behind which the person types."""
        self.line(question, first="")
        self._out.write("> ")
        self._out.flush()


def next_line() -> asyncio.Future[tuple[str, float]]:
    """The next line that the person types, with its end (empty at the end of the input), and when it was read, by the
    clock of `time.monotonic`."""
    loop = asyncio.get_running_loop()
    typed: asyncio.Future[tuple[str, float]] = loop.create_future()

    def read() -> None:
        try:
            line = os.read(sys.stdin.fileno(), 65_536)
        except OSError:  # the terminal is gone
            line = b""
        with suppress(RuntimeError):  # the program ends
            loop.call_soon_threadsafe(typed.set_result, (line.decode(errors="replace"), time.monotonic()))

    threading.Thread(target=read, daemon=True).start()
    return typed


def forget_typed() -> None:
    """Forget what was typed and not read, half a line too."""
    if sys.platform != "win32":
        with suppress(OSError, termios.error):
            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


class Printer:
    """Prints what is new in a conversation, in the words of the record."""

    def __init__(self, terminal: Terminal, view: ConversationView) -> None:
        """Runs that have ended in this view are not printed, but for the last one where none goes on."""
        self._terminal = terminal
        ended = [run.run_id for run in view.runs if run.ended_at is not None]
        self._earlier = set(ended if active_run(view) is not None else ended[:-1])
        self.typed = ""
        """The prompt that was typed here: it is on screen."""
        self._printed: set[str] = set()

    def show(self, view: ConversationView, waiting: Container[str] = ()) -> None:
        """`waiting` are the keys of calls that are shown with their question."""
        calls = {call.tool_call_id: call for call in view.tool_calls}
        runs = [run for run in view.runs if run.run_id not in self._earlier and run.status != "queued"]
        for run in runs:
            self._say_new(_about(run))
        for message in view.messages:
            if message.run_id in self._earlier:
                continue
            if message.role in ("user", "assistant") and message.content.strip() and self._is_new(message.message_id):
                if message.content != self.typed:
                    self._terminal.line("", "")
                    self._terminal.line(message.content, first="> " if message.role == "user" else None)
                self.typed = ""
            for call in (calls[call_id] for call_id in message.tool_calls if call_id in calls):
                if call.state not in ("proposed", "approved") and key_of(call) not in waiting:
                    self._show_new(call)
        for run in runs:  # below all that it has done
            self._say_new(_stop_of(run))

    def _show_new(self, call: ToolCallView) -> None:
        if self._is_new(key_of(call)):
            self.show_call(call)
        if call.waiting_behind is not None and self._is_new(f"{key_of(call)} {call.waiting_behind}"):
            self._terminal.line(words.CARD["behindCell"].format(cell=call.waiting_behind))

    def _is_new(self, key: str) -> bool:
        is_new = key not in self._printed
        self._printed.add(key)
        return is_new

    def _say_new(self, said: Mapping[str, str]) -> None:
        for text in [text for key, text in said.items() if self._is_new(key)]:
            self._terminal.line(text)

    def show_call(self, call: ToolCallView, *, asked: bool = False) -> None:
        """A call as its card shows it; where it is asked about, or is new, with all that it was asked with."""
        is_whole = self._is_new(f"{call.tool_call_id} {call.tool_input}") or asked
        told = describe(call, tuple(shown_outputs(call, 0, settled_outputs(call), Results("", {}))))
        self._terminal.line("", "")
        title = f"{told.title or told.tool_name} {told.summary}".strip()
        ending = ", ".join(filter(None, (text_of(told.ending), told.took)))
        self._terminal.line(one_line(f"{title}: {ending}", 300), first="* ")
        if is_whole and call.tool_name == ASK_USER:
            choices = (f"{number}  {one}" for number, one in enumerate(choices_of(call), 1))
            self._terminal.line("\n".join((str((arguments_of(call) or {}).get("question", "")), *choices)))
        elif is_whole:
            for text in filter(None, (told.code, *_beside(call, told.code))):
                self._terminal.line(reveal(text), CODE_MARGIN)
        for said in (*told.notes, *(f"{warning.title} {warning.detail}" for warning in told.warnings)):
            if self._is_new(f"{call.tool_call_id} {said}") or is_whole:
                self._terminal.line(said)
        outputs = (f"[{one.name}]" if one.kind == "image" else one.plain or one.text for one in told.outputs)
        if output := "\n".join(outputs):
            self._terminal.line(truncate(output, MOST_OUTPUT).text, OUTPUT_MARGIN)
        if told.output_file:
            self._terminal.line(told.output_file)


def _about(run: RunView) -> dict[str, str]:
    """What is to be said of a run as it goes on, each under a key."""
    said = {run.run_id: f"{words.recorded_words(run) or words.model_words(run)}, {words.policy_words(run)}."}
    said |= {f"{run.run_id} raised {step.pause_id}": words.raised(step) for step in run.raises}
    said |= {f"{run.run_id} {notice.at} {notice.content}": notice.content for notice in run.notices}
    if run.delay is not None:
        said[f"{run.run_id} {run.delay.since} {run.delay.attempt}"] = f"{words.delayed(run.delay)}. {run.delay.cause}"
    return {key: one_line(text) for key, text in said.items()}


def _stop_of(run: RunView) -> dict[str, str]:
    """That a run waits, or has ended."""
    if run.paused is not None:
        return {f"paused {run.paused.pause_id}": one_line(f"The run waits: {words.paused(run.paused)}.")}
    if run.ended_at is None:
        return {}
    error = f"{words.error_words(run.error)} {run.error.message} " if run.error is not None else ""
    said = f"{error}{words.run_word(run.status).capitalize()}. {' · '.join(spent(run.usage))}"
    return {f"{run.run_id} {run.ended_at}": f"\n{one_line(said)}"}


def _beside(call: ToolCallView, shown: str) -> Iterator[str]:
    """The arguments that the code or diff does not show: all of a call is on screen."""
    arguments, preview = arguments_of(call) or {}, call.preview
    is_whole = preview is not None and preview.kind == "diff" and not preview.left_out
    in_diff = ("content", "old_text", "new_text") if is_whole else ()
    if shown != json.dumps(arguments, indent=2, ensure_ascii=False):
        for name, value in arguments.items():
            if value not in (None, shown) and name not in in_diff:
                yield f"{name}: {value}"


def choices_of(call: ToolCallView) -> list[str]:
    """The answers that the model offers with its question."""
    choices = (arguments_of(call) or {}).get("choices")
    return list(map(str, choices[:50])) if isinstance(choices, list) else []


def key_of(call: ToolCallView) -> str:
    """The same for what is the same to decide on."""
    return f"{call.tool_call_id} {call.state} {call.digest}"


def active_run(view: ConversationView) -> RunView | None:
    """The run that goes on; a queued one only if no other runs."""
    going_on = [run for run in view.runs if run.ended_at is None]
    return next((run for run in going_on if run.status == "running"), next(iter(going_on), None))
