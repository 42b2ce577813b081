"""Prints the events of a conversation as they come, below what was printed before, in the words of the record."""

import json
from collections.abc import Container, Iterator

from agent_kernel.protocol.events import (
    ApprovalRequestEvent,
    ApprovalResponseEvent,
    ErrorEvent,
    MessageEvent,
    PolicyEvent,
    ReasoningEvent,
    RunEvent,
    ServerEvent,
    TokenEvent,
    ToolCompleteEvent,
    ToolOutputEvent,
    ToolStartEvent,
    ToolStateEvent,
    ToolUndoneEvent,
)
from agent_kernel.protocol.figures import spent
from agent_kernel.protocol.views import ErrorView, OutputView, RunView, ToolCallView
from agent_kernel.protocol.vocabulary import CallState
from agent_kernel.record import words
from agent_kernel.record.record_outputs import on_screen
from agent_kernel.record.results import joined
from agent_kernel.record.story import arguments_of, describe, summary_of
from agent_kernel.terminal.lines import Terminal, code, one_line, prose
from agent_kernel.tools.builtin.declarations import ASK_USER

OUTPUT_LINES, LINE_CHARACTERS = 200, 2_000
"""The most of one call's output that is printed."""
CODE_LINES = 20
"""The most lines of a call that nobody is asked about."""
CODE_MARGIN, OUTPUT_MARGIN = "  │ ", "    "
_IN_A_DIFF = frozenset({"content", "old_text", "new_text"})


class Transcript:
    def __init__(self, terminal: Terminal, *, earlier: Container[str] = (), asks: bool) -> None:
        """Events of `earlier` runs are not printed. `asks`: what waits for a person is shown when it is asked."""
        self._terminal = terminal
        self._earlier = earlier
        self._asks = asks
        self.typed = ""
        """The prompt that was typed here: it is on screen."""
        self._last = ""
        """The message or call that the last lines are of."""
        self._message = ""
        """The message whose text was printed last."""
        self._titles: dict[str, str] = {}
        """Of calls, by their ids; so in the others."""
        self._arguments: dict[str, str] = {}
        """Those that were shown in full."""
        self._half: dict[str, str] = {}
        """The beginning of a line of output whose end has not come."""
        self._lines: dict[str, int] = {}
        """How many lines of output were printed."""
        self._facts: dict[str | None, str] = {}
        """What is said of each run below its prompt."""
        self._told: set[tuple[str | None, str]] = set()
        """What was said of each run."""

    def show(self, event: ServerEvent) -> None:
        if event.run_id in self._earlier:
            return
        match event:
            case TokenEvent():
                self._say(event.message_id, event.content)
            case ReasoningEvent() if self._last != "reasoning":
                self._begin("reasoning")
                self.line("Thinking …")
            case MessageEvent(role="user"):
                self._show_prompt(event)
            case MessageEvent(role="assistant") if event.message_id != self._message:
                self._say(event.message_id, event.content)  # it did not come in pieces
            case RunEvent() if event.run.status != "queued":
                self._show_run(event.run)
            case PolicyEvent():
                who = one_line(event.decided_by or words.CARD["anotherTab"], 60)
                self.line(f"Policy: {words.MODES[event.mode]}, switched by {who}.")
            case ErrorEvent():
                self._show_error(event.run_id, event)
            case _:
                self._show_of_call(event)

    def line(self, text: str) -> None:
        self._terminal.line(one_line(text, 1_000))

    def _begin(self, what: str) -> None:
        if self._last != what:
            self._terminal.gap()
        self._last = what

    def _show_prompt(self, event: MessageEvent) -> None:
        if event.content != self.typed:
            self._begin(event.message_id)
            self._terminal.line(prose(event.content[:20_000]), "> ")
        self.typed = ""
        if facts := self._facts.get(event.run_id):
            self._tell(event.run_id, facts)

    def _say(self, message_id: str, text: str) -> None:
        text = text if self._message == message_id else text.lstrip()
        if text:
            self._begin(message_id)
            self._message = message_id
            self._terminal.write(prose(text))

    def _tell(self, run_id: str | None, text: str, key: str = "") -> None:
        """Print something that each view of a run repeats."""
        if (run_id, key or text) not in self._told:
            self._told.add((run_id, key or text))
            self.line(text)

    def _show_error(self, run_id: str | None, error: ErrorEvent | ErrorView) -> None:
        has_title = error.code == "BUDGET_EXCEEDED" or error.message.startswith(words.OWN_TITLES)
        self._tell(run_id, error.message if has_title else f"{words.PROBLEMS[error.code]} {error.message}")

    def _show_run(self, run: RunView) -> None:
        recorded = f" {words.recorded_words(run)}." if run.recorded else ""
        self._facts.setdefault(run.run_id, f"{words.model_words(run)}, {words.policy_words(run)}.{recorded}")
        for said in (*map(words.raised, run.raises), *(notice.content for notice in run.notices)):
            self._tell(run.run_id, said)
        if run.delay is not None:
            hint = f" Ctrl+C: {words.ACTIONS['tryNow']}, {words.ACTIONS['stop']}." if self._asks else ""
            text = f"{words.delayed(run.delay)}. {run.delay.cause}{hint}"
            self._tell(run.run_id, text, f"{run.delay.since} {run.delay.attempt}")
        if run.ended_at is not None:
            self._begin("end")
            if run.error is not None:
                self._show_error(run.run_id, run.error)
            figures = "" if run.recorded else " · ".join(spent(run.usage))
            self.line(f"{words.run_word(run.status).capitalize()}. {figures}")

    def _show_of_call(self, event: ServerEvent) -> None:
        match event:
            case ToolStateEvent():
                self._titles[event.tool_call_id] = _title(_call(event, "proposed"))
                if event.waiting_behind is not None:
                    self._head(event.tool_call_id)
                    self.line(words.CARD["behindCell"].format(cell=event.waiting_behind))
            case ApprovalRequestEvent() if not self._asks:
                self.show_call(_call(event, "awaiting_approval"))
            case ApprovalResponseEvent() if event.by != "policy" or not event.approved:
                self._head(event.tool_call_id)
                self.line(_decision(event))
            case ToolStartEvent() if self._arguments.get(event.tool_call_id) == event.tool_input:
                self._head(event.tool_call_id)
            case ToolStartEvent() if not (self._asks and event.tool_name == ASK_USER):
                self.show_call(_call(event, "executing"), most=CODE_LINES)
            case ToolOutputEvent():
                self._head(event.tool_call_id)
                self._print(event.tool_call_id, _text_of(event.output), goes_on=event.output.kind == "stream")
            case ToolCompleteEvent() if event.state != "denied":  # the decision has said that
                self._show_outcome(event)
            case ToolUndoneEvent():
                self._head(event.tool_call_id)
                self.line("The file was put back.")

    def _head(self, tool_call_id: str, state: str = "") -> None:
        """The line above what belongs to a call, unless the last lines are the call's."""
        if self._last != tool_call_id or state:
            self._begin(tool_call_id)
            self._terminal.line(f"* {self._titles.get(tool_call_id, '')}{state}", "")

    def show_call(self, call: ToolCallView, *, most: int | None = None) -> None:
        """A call as its card shows it: all of it, unless nobody is asked."""
        self._titles[call.tool_call_id], self._arguments[call.tool_call_id] = _title(call), call.tool_input
        if call.tool_name == ASK_USER:
            self._head(call.tool_call_id, f": {words.CARD['asking']}")
            question, choices = question_of(call)
            self._terminal.line(prose(question))
            for number, choice in enumerate(choices, 1):
                self._terminal.line(f"{number}  {one_line(choice, 1_000)}", OUTPUT_MARGIN)
            return
        self._head(call.tool_call_id, f": {words.STATES[call.state]}")
        told = describe(call)
        self.show_code(told.code, most)
        if most is None and call.preview is not None and call.preview.left_out:
            self.show_code(json.dumps(arguments_of(call), indent=2, ensure_ascii=False))
        for said in (*_other_arguments(call, told.code), *told.notes):
            self._terminal.line(code(said))
        for warning in told.warnings:
            self.line(f"{warning.title} {warning.detail}")

    def show_code(self, text: str, most: int | None = None) -> None:
        lines = code(text.removesuffix("\n")).split("\n") if text else []
        for line in lines[:most]:
            self._terminal.line(line, CODE_MARGIN)
        if most is not None and len(lines) > most:
            self.line(f"… {len(lines) - most:,} more lines")

    def _show_outcome(self, event: ToolCompleteEvent) -> None:
        call_id = event.tool_call_id
        self._head(call_id)
        if event.tool_name == ASK_USER and event.state == "success":
            self.line(f"Answer: {event.tool_result}")
            return
        is_new = call_id not in self._half and event.tool_result and event.state in ("success", "error")
        self._print(call_id, f"{event.tool_result}\n" if is_new else "")
        spent = f", {words.duration(event.duration_ms)}" if event.duration_ms is not None else ""
        if event.cached_at is not None:
            spent = f", {words.stored(event.cached_at, event.timestamp)}"
        notes = {"unknown": words.MAY_HAVE_RUN, "invalid": words.MODEL_TOLD}
        self.line(f"{words.STATES[event.state]}{spent}.{_reason(event.reason)} {notes.get(event.state, '')}")
        if event.output_file:
            self.line(f"The whole output is in {event.output_file}")

    def _print(self, call_id: str, text: str, *, goes_on: bool = False) -> None:
        """Print the whole lines of a call's output, and a half one unless it `goes_on`."""
        if not goes_on and self._half.get(call_id):
            text = f"\n{text}"
        *lines, half = (self._half.get(call_id, "") + text).replace("\r\n", "\n").split("\n")
        self._half[call_id] = half[-LINE_CHARACTERS:]
        for line in lines:
            count = self._lines[call_id] = self._lines.get(call_id, 0) + 1
            if count <= OUTPUT_LINES:
                is_last = count == OUTPUT_LINES
                said = "… more output, not shown here." if is_last else prose(on_screen(line)[:LINE_CHARACTERS])
                self._terminal.line(said, OUTPUT_MARGIN)


def _call(event: ToolStateEvent | ApprovalRequestEvent | ToolStartEvent, state: CallState) -> ToolCallView:
    """What is known of a call when it is asked for or begins: enough for its words."""
    return ToolCallView.model_construct(
        tool_call_id=event.tool_call_id,
        tool_name=event.tool_name,
        tool_input=event.tool_input or "",
        state=state,
        warnings=event.warnings if isinstance(event, ApprovalRequestEvent) else [],
        preview=None if isinstance(event, ToolStateEvent) else event.preview,
    )


def _title(call: ToolCallView) -> str:
    return one_line(call.tool_name if call.tool_name == ASK_USER else f"{call.tool_name} {summary_of(call)}", 160)


def _decision(event: ApprovalResponseEvent) -> str:
    verb = "Denied" if not event.approved else "Edited and approved" if event.edited else "Approved"
    said = f"{verb} by {words.decider(event.by, event.decided_by)}.{_reason(event.reason)}"
    return said if event.approved else f"{said} {words.NOTHING_RAN}"


def _reason(reason: str | None) -> str:
    if not reason:
        return ""
    return f" Reason: {reason.rstrip()}{'' if reason.rstrip().endswith(('.', '!', '?', '…')) else '.'}"


def _text_of(output: OutputView) -> str:
    """An output as lines: a display by its text, a picture by its name."""
    if output.kind != "display":
        return f"{output.text}\n" if output.kind == "error" else output.text
    for kind in ("text/plain", "text/markdown", "text/latex"):
        text = joined(output.data.get(kind))
        if isinstance(text, str) and text and not any(one.startswith("image/") for one in output.data):
            return f"{text}\n"
    return f"[{words.display_name(output.data)}]\n"


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


def question_of(call: ToolCallView) -> tuple[str, list[str]]:
    """The question, and the answers that the model offers."""
    arguments = arguments_of(call) or {}
    choices = arguments.get("choices")
    return str(arguments.get("question", "")), [str(one) for one in choices[:50]] if isinstance(choices, list) else []
