"""Prints a conversation as it goes on, below what was printed before, in the words of the record."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

from agent_kernel.protocol.events import (
    ErrorEvent,
    MessageEvent,
    PolicyEvent,
    ReasoningEvent,
    RunEvent,
    ServerEvent,
    SessionEvent,
    TokenEvent,
    ToolCompleteEvent,
    ToolOutputEvent,
    ToolStartEvent,
    ToolStateEvent,
    ToolUndoneEvent,
)
from agent_kernel.protocol.figures import money, spent
from agent_kernel.protocol.views import OutputView, RunView, ToolCallView
from agent_kernel.record import words
from agent_kernel.record.record_outputs import on_screen
from agent_kernel.record.results import joined
from agent_kernel.record.story import arguments_of, describe, text_of
from agent_kernel.terminal.conversation import ASK_USER, Conversation
from agent_kernel.terminal.lines import Terminal, code, one_line, prose

OUTPUT_LINES, OUTPUT_CHARACTERS = 200, 20_000
"""The most of one call's output that is printed."""
CODE_LINES = 20
"""The most lines of a call that nobody is asked about."""
CODE_MARGIN, OUTPUT_MARGIN = "  │ ", "    "
_IN_A_DIFF = frozenset({"content", "old_text", "new_text"})


class Transcript:
    def __init__(self, terminal: Terminal, conversation: Conversation, *, asks: bool) -> None:
        """`asks`: what waits for a person is asked here, and shown when it is."""
        self.terminal = terminal
        self._conversation = conversation
        self._asks = asks
        self._message = ""
        """The message whose text was printed last."""
        self.typed = ""
        """The prompt that was typed here: it is on screen."""
        self._thinking = False
        self._call = ""
        """The call that the last lines are of."""
        self._carded: set[str] = set()
        self._outputs: dict[str, _Printed] = {}
        self._seen: dict[str, tuple[int, int, object, object]] = {}
        """Of each run: how many raises and notices, which delay and which pause were printed."""
        if count := len(conversation.earlier):
            self.line(f"{count} earlier {'prompt' if count == 1 else 'prompts'} of this conversation not shown.")

    def show(self, event: ServerEvent) -> None:
        """Print an event that the conversation has taken in."""
        if not self._conversation.is_caught_up and getattr(event, "run_id", None) in (
            None,
            *self._conversation.earlier,
        ):
            return
        thinks, self._thinking = self._thinking, isinstance(event, ReasoningEvent)
        if self._thinking and not thinks:
            self.line("Thinking …")
        match event:
            case TokenEvent():
                self._say(event.message_id, event.content)
            case MessageEvent():
                self._show_message(event)
            case RunEvent() if event.run.status != "queued":
                self._show_run(event.run)
            case PolicyEvent():
                who = one_line(event.decided_by or words.CARD["anotherTab"], 60)
                self.line(f"Policy: {words.MODES[event.mode]}, switched by {who}.")
            case ErrorEvent() if "pause_id" not in event.details:
                self.problem(words.PROBLEMS.get(event.code, ""), event.message)
            case SessionEvent() if self._conversation.runs:
                self.line("Some of what happened meanwhile is not shown.")
            case _:
                self._show_call_event(event)

    def line(self, text: str) -> None:
        self.terminal.line(one_line(text, 1_000))

    def problem(self, title: str, message: str) -> None:
        self.line(message if not title or message.startswith(words.OWN_TITLES) else f"{title} {message}")

    def _show_message(self, event: MessageEvent) -> None:
        if event.role == "user":
            if event.content != self.typed:
                self._leave_call()
                self.terminal.line(prose(event.content[:20_000]), "> ")
            self.typed = ""
            if (run := self._conversation.runs.get(event.run_id or "")) and run.model:
                facts = f"{words.model_words(run)}, {words.policy_words(run)}"
                self.line(f"{facts}. {words.recorded_words(run)}" if run.recorded else f"{facts}.")
        elif event.role == "assistant" and event.message_id != self._message:
            self._say(event.message_id, event.content)  # it did not come in pieces

    def _say(self, message_id: str, text: str) -> None:
        if self._message != message_id:
            self._leave_call()
            text = text.lstrip()
        if text:
            self._message = message_id
            self.terminal.write(prose(text))

    def _leave_call(self) -> None:
        """What comes next belongs to no call."""
        self._call = ""
        self.terminal.gap()

    # Runs

    def _show_run(self, run: RunView) -> None:
        raises, notices, delay, pause = self._seen.get(run.run_id, (0, 0, None, None))
        self._seen[run.run_id] = (len(run.raises), len(run.notices), run.delay or delay, run.paused or pause)
        for step in run.raises[raises:]:
            self.line(words.raised(step))
        for notice in run.notices[notices:]:
            self.line(notice.content)
        if run.delay is not None and run.delay != delay:
            hint = f" Ctrl+C: {words.ACTIONS['tryNow']}, {words.ACTIONS['stop']}." if self._asks else ""
            self.line(f"{words.delayed(run.delay)}. {run.delay.cause}{hint}")
        if run.paused is not None and run.paused != pause and not self._asks:
            self.show_pause(run)
        if run.ended_at is not None:
            self._leave_call()
            if run.error is not None:
                self.problem(words.error_words(run.error), run.error.message)
            figures = "" if run.recorded else " · ".join(spent(run.usage))
            self.line(f"{words.run_word(run.status).capitalize()}. {figures}")

    def show_pause(self, run: RunView) -> None:
        if run.paused is None:
            return
        self._leave_call()
        said = words.paused(run.paused)
        self.line(f"{said[:1].upper()}{said[1:]}. {words.PAUSED_BEFORE} {words.CARD['nothingLost']}")
        if run.paused.unpriced:
            self.line(words.CARD["costUnknown"].format(of=run.paused.of))
        for meter in () if run.paused.repeated else meters(run):
            self.line(meter)

    # Calls

    def _show_call_event(self, event: ServerEvent) -> None:
        call = self._conversation.calls.get(getattr(event, "tool_call_id", None) or "")
        if call is None:
            return
        match event:
            case ToolStateEvent() if event.waiting_behind is not None:
                self._head(call)
                self.line(words.CARD["behindCell"].format(cell=event.waiting_behind))
            case ToolStartEvent() if self._asks and call.tool_name == ASK_USER and self._conversation.is_caught_up:
                return  # it is shown when it is asked
            case ToolStartEvent() if call.tool_call_id in self._carded:
                self._head(call, anew=True)
            case ToolStartEvent():
                self.show_call(call, most=CODE_LINES)
            case ToolOutputEvent():
                self._head(call)
                self._show_output(call.tool_call_id, event.output)
            case ToolCompleteEvent():
                self._show_outcome(call, says_state=not self._head(call))
            case ToolUndoneEvent():
                self._head(call)
                self.line("The file was put back.")
            case _:
                if call.state == "awaiting_approval" and not self._asks and call.tool_call_id not in self._carded:
                    self.show_call(call)

    def show_call(self, call: ToolCallView, *, most: int | None = None) -> None:
        """A call as its card shows it: all of it, unless nobody is asked."""
        self._head(call, anew=True)
        self._carded.add(call.tool_call_id)
        if call.tool_name == ASK_USER:
            question, choices = question_of(call)
            self.terminal.line(prose(question))
            for number, choice in enumerate(choices, 1):
                self.terminal.line(f"{number}  {one_line(choice, 1_000)}", OUTPUT_MARGIN)
            return
        told = describe(call)
        lines = code(told.code.removesuffix("\n")).split("\n") if told.code else []
        for line in lines[:most]:
            self.terminal.line(line, CODE_MARGIN)
        if most is not None and len(lines) > most:
            self.line(f"… {len(lines) - most:,} more lines")
        for said in (*_other_arguments(call, told.code), *told.notes):
            self.terminal.line(code(said))
        for warning in told.warnings:
            self.line(f"{warning.title} {warning.detail}")

    def show_everything(self, call: ToolCallView) -> None:
        """The arguments in full, of which a long diff leaves something out."""
        self.terminal.line(code(pretty(call.tool_input)), CODE_MARGIN)

    def _head(self, call: ToolCallView, *, anew: bool = False) -> bool:
        """The line above what belongs to a call, unless the last lines are the call's. Whether it was printed."""
        self._end_outputs(but=call.tool_call_id)
        if self._call == call.tool_call_id and not anew:
            return False
        if self._call != call.tool_call_id:
            self.terminal.gap()
        self._call = call.tool_call_id
        told = describe(call)
        asks = call.tool_name == ASK_USER and call.state == "executing"
        state = words.CARD["asking"] if asks else text_of(told.ending)
        summary = "" if call.tool_name == ASK_USER else told.summary
        self.terminal.line(f"* {one_line(f'{call.tool_name} {summary}', 160).strip()}: {one_line(state)}", "")
        return True

    def _show_outcome(self, call: ToolCallView, *, says_state: bool) -> None:
        printed = call.tool_call_id in self._outputs
        if not printed and call.result and call.state in ("success", "error") and call.tool_name != ASK_USER:
            self._show_output(call.tool_call_id, OutputView(kind="stream", text=call.result))
        self._end_outputs()
        if call.tool_name == ASK_USER and call.state == "success":
            self.line(f"Answer: {call.result}")
            return
        told = describe(call.model_copy(update={"preview": None}))
        says_state = says_state or call.tool_call_id in self._outputs
        if said := [*([f"{text_of(told.ending)}."] if says_state else []), *told.notes]:
            self.line(" ".join(said))
        if told.output_file:
            self.line(told.output_file)

    def _show_output(self, call_id: str, output: OutputView) -> None:
        printed = self._outputs.setdefault(call_id, _Printed())
        if output.kind == "stream":
            *lines, half = (printed.half + output.text).replace("\r\n", "\n").split("\n")
            printed.half = half[-OUTPUT_CHARACTERS:]
        else:
            text = output.text if output.kind == "error" else _display(output) if output.kind == "display" else ""
            lines = [*([printed.half] if printed.half else []), *(text.split("\n") if text else [])]
            printed.half = ""
        for line in lines:
            if printed.is_full:
                break
            printed.is_full = printed.lines >= OUTPUT_LINES or printed.characters >= OUTPUT_CHARACTERS
            said = "… more output, not shown here." if printed.is_full else prose(on_screen(line[:OUTPUT_CHARACTERS]))
            self.terminal.line(said, OUTPUT_MARGIN)
            printed.lines, printed.characters = printed.lines + 1, printed.characters + len(said)

    def _end_outputs(self, but: str = "") -> None:
        """End the lines that calls have begun."""
        self.terminal.end_line()
        for call_id, printed in self._outputs.items():
            if printed.half and call_id != but:
                self._show_output(call_id, OutputView(kind="stream", text="\n"))


@dataclass(slots=True)
class _Printed:
    """What was printed of a call's output."""

    half: str = ""
    """The beginning of a line whose end has not come."""
    lines: int = 0
    characters: int = 0
    is_full: bool = False


def _display(output: OutputView) -> str:
    name = words.display_name(output.data)
    for kind in ("text/plain", "text/markdown", "text/latex"):
        text = joined(output.data.get(kind))
        if isinstance(text, str) and text and not any(one.startswith("image/") for one in output.data):
            return text
    return f"[{name}]"


def _other_arguments(call: ToolCallView, shown: str) -> Iterator[str]:
    """The arguments that the code or diff does not show: all of a call is on screen."""
    arguments = arguments_of(call) or {}
    if shown == json.dumps(arguments, indent=2, ensure_ascii=False):
        return
    for name, value in arguments.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        is_in_diff = call.preview is not None and call.preview.kind == "diff" and name in _IN_A_DIFF
        if value is not None and text != shown and not is_in_diff:
            yield f"{name}: {text}"


def pretty(text: str) -> str:
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text


def question_of(call: ToolCallView) -> tuple[str, list[str]]:
    """The question, and the answers that the model offers."""
    arguments = arguments_of(call) or {}
    choices = arguments.get("choices")
    return str(arguments.get("question", "")), [str(one) for one in choices[:50]] if isinstance(choices, list) else []


def meters(run: RunView) -> Iterator[str]:
    """What is spent of each limit: `Tokens: 12,000 of 10,000`."""
    pause, of_all = run.paused, run.conversation_budget
    if pause is None:
        return
    of_all = of_all if pause.of == "conversation" else None
    fields = {"tokens": "total_tokens", "usd": "cost"}
    for name, said in words.LIMITS.items():
        most = getattr(of_all.limits if of_all is not None else run.budget, name)
        field = fields.get(name, name)
        used = pause.seconds if name == "seconds" else getattr(run.usage, field) or 0
        used += (getattr(of_all.spent, field) or 0) if of_all is not None else 0
        figure = money if name == "usd" else _time if name == "seconds" else "{:,.0f}".format
        if most is not None:
            known = "not known" if name == "usd" and pause.unpriced else figure(used)
            yield f"{said['title']}: {known} of {figure(most)}"


def _time(seconds: float) -> str:
    return words.duration(seconds * 1000).removesuffix(" 0 s")
