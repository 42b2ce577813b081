"""Prints a conversation as it goes on, line after line, in the words of the cards."""

from collections.abc import Sequence

from agent_kernel.protocol.events import (
    ApprovalRequestEvent,
    CompleteEvent,
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
)
from agent_kernel.protocol.figures import spent
from agent_kernel.protocol.views import MessageView, OutputView, RunView, ToolCallView
from agent_kernel.protocol.vocabulary import RunStatus
from agent_kernel.record import words
from agent_kernel.record.story import code_of, summary_of
from agent_kernel.terminal.cards import (
    OUTPUT_MARGIN,
    Outputs,
    meaning,
    meters,
    news,
    other_arguments,
    person,
    pretty,
    question_of,
)
from agent_kernel.terminal.state import ASK_USER, Conversation, Pause
from agent_kernel.terminal.text import (
    BOLD,
    DIM,
    GREEN,
    MARGIN,
    RED,
    YELLOW,
    Flow,
    Terminal,
    one_line,
    safe_code,
    safe_prose,
)

CODE_LINES = 20
"""The most lines of a call that nobody is asked about."""
_GOES_ON: tuple[RunStatus, ...] = ("queued", "running")
_COLOURS = {"success": GREEN, "error": RED, "invalid": RED, "unknown": YELLOW}


class Transcript:
    """Writes below what was written before; never above. Only its own lines begin in the first column."""

    def __init__(self, terminal: Terminal, conversation: Conversation, *, asks: bool) -> None:
        """`asks`: questions are put to the person here, and a waiting call is shown when it is asked about."""
        self.terminal = terminal
        self._conversation = conversation
        self._asks = asks
        self._flow: Flow | None = None
        self._message = ""
        self._thinking = False
        self._open_call = ""
        """The call whose head is above what is written next."""
        self._outputs: dict[str, Outputs] = {}
        self._headed: set[str] = set()
        self._paused: set[str] = set()
        self._delayed = ""
        """When the delay began that was printed last."""
        self._notes: dict[str, tuple[int, int]] = {}

    # The past

    def show_past(self, messages: Sequence[MessageView]) -> None:
        """The newest run from its beginning; of those before it, how many there are."""
        runs = list(self._conversation.runs.values())
        shown = [run for run in runs if run.status in _GOES_ON] or runs[-1:]
        if earlier := len(runs) - len(shown):
            self.line(
                f"{earlier} earlier {'prompt' if earlier == 1 else 'prompts'} of this conversation not shown.", DIM
            )
        for run in shown:
            self._show_run_so_far(run, messages)

    def _show_run_so_far(self, run: RunView, messages: Sequence[MessageView]) -> None:
        self._show_head(run)
        calls = {call.tool_call_id: call for call in self._conversation.calls.values() if call.run_id == run.run_id}
        for message in messages:
            if message.run_id != run.run_id or message.role != "assistant":
                continue
            self._say(message.content)
            for name in message.tool_calls:
                if (call := calls.pop(name, None)) is not None:
                    self._show_past_call(call)
        for call in calls.values():
            self._show_past_call(call)
        self._show_changes(run)
        if run.status not in _GOES_ON:
            self._show_end(run)

    def _show_past_call(self, call: ToolCallView) -> None:
        if call.state == "awaiting_approval" and self._asks:
            return
        self.show_call(call, most=CODE_LINES)
        for output in call.outputs:
            self._show_output(call.tool_call_id, output)
        if call.state not in ("proposed", "awaiting_approval", "approved", "executing"):
            self.show_outcome(call)

    # Events

    def show(self, event: ServerEvent) -> None:
        """Print an event that the conversation has taken in."""
        self._note_thinking(isinstance(event, ReasoningEvent))
        match event:
            case TokenEvent():
                self._add_text(event)
            case MessageEvent():
                self._show_message(event)
            case RunEvent():
                self._show_run(event.run)
            case PolicyEvent():
                self.line(f"Policy: {words.MODES[event.mode]}, switched by {person(event.decided_by)}.", DIM, MARGIN)
            case ErrorEvent() if "pause_id" not in event.details:
                self.problem(event.code, event.message)
            case CompleteEvent():
                self.end_text()
            case SessionEvent():
                self.line("Some of what happened meanwhile is not shown.", DIM, MARGIN)
            case _:
                self._show_call_event(event)

    def _note_thinking(self, thinks: bool) -> None:
        if thinks and not self._thinking:
            self.line("Thinking …", DIM, MARGIN)
        self._thinking = thinks

    def _add_text(self, event: TokenEvent) -> None:
        if self._flow is None or self._message != event.message_id:
            self._leave_call()
            self._flow = Flow(self.terminal)
            self._message = event.message_id
        self._flow.feed(safe_prose(event.content))

    def _show_call_event(self, event: ServerEvent) -> None:
        """What happened to a call, below its head."""
        call = self._conversation.calls.get(getattr(event, "tool_call_id", ""))
        if call is None:
            return
        match event:
            case ApprovalRequestEvent() if not self._asks:
                self.show_call(call)
            case ToolStartEvent():
                if call.tool_call_id not in self._headed and not (self._asks and call.tool_name == ASK_USER):
                    self.show_call(call, most=CODE_LINES)
            case ToolOutputEvent():
                self._head(call)
                self._show_output(call.tool_call_id, event.output)
            case ToolCompleteEvent():
                self._head(call)
                self.show_outcome(call)
            case _:
                if said := news(event, call):
                    self._head(call)
                    self.line(said, DIM, MARGIN)

    # Runs

    def _show_message(self, event: MessageEvent) -> None:
        if event.role == "user":
            self._leave_call()
            run = self._conversation.runs.get(event.run_id or "")
            if run is None or safe_prose(run.prompt) != safe_prose(event.content) or event.run_id not in self._headed:
                self._show_prompt(event.content)
        elif event.role == "assistant" and self._message != event.message_id:
            self._say(event.content)  # it did not come in pieces
            self._message = event.message_id
        else:
            self.end_text()

    def _say(self, text: str) -> None:
        if text.strip():
            self._leave_call()
            flow = Flow(self.terminal)
            flow.feed(safe_prose(text))
            flow.end()

    def _leave_call(self) -> None:
        """What comes next belongs to no call."""
        self.end_text()
        if self._open_call:
            self.terminal.gap()
        self._open_call = ""

    def _show_prompt(self, text: str) -> None:
        self.end_text()
        self.terminal.gap()
        flow = Flow(self.terminal, "> ", MARGIN, BOLD)
        flow.feed(safe_prose(text[:20_000]))
        flow.end()

    def _show_head(self, run: RunView) -> None:
        """The prompt, the model, the policy: once for a run."""
        if run.run_id in self._headed:
            return
        self._headed.add(run.run_id)
        self._open_call = ""
        self._show_prompt(run.prompt)
        facts = [words.model_words(run), words.policy_words(run)]
        if run.recorded:
            facts.append(words.recorded_words(run))
        self.line(one_line(", ".join(facts), 400), DIM, MARGIN)

    def _show_run(self, run: RunView) -> None:
        if run.status == "queued":
            return
        self._show_head(run)
        self._show_changes(run)
        if run.status not in _GOES_ON:
            self._show_end(run)

    def _show_changes(self, run: RunView) -> None:
        """Additions to the budget and notices that came since, a delay, and a pause."""
        raises, notices = self._notes.get(run.run_id, (0, 0))
        self._notes[run.run_id] = (len(run.raises), len(run.notices))
        for step in run.raises[raises:]:
            self.line(safe_prose(words.raised(step)), DIM, MARGIN)
        for notice in run.notices[notices:]:
            self.line(one_line(notice.content, 500), DIM, MARGIN)
        if run.delay is not None and run.delay.since != self._delayed:
            self._delayed = run.delay.since
            hint = f" Ctrl+C: {words.ACTIONS['tryNow']}, {words.ACTIONS['stop']}." if self._asks else ""
            said = f"{words.delayed(run.delay)}. {run.delay.cause}"
            self.line(f"{one_line(said, 500)}{hint}", DIM, MARGIN)
        if run.paused is not None and run.paused.pause_id not in self._paused:
            self._paused.add(run.paused.pause_id)
            if not self._asks:
                self.show_pause(Pause(run, run.paused))

    def _show_end(self, run: RunView) -> None:
        self._leave_call()
        if run.error is not None:
            self.problem(run.error.code, run.error.message)
        said = f" {' · '.join(spent(run.usage))}" if spent(run.usage) and not run.recorded else ""
        word = words.run_word(run.status)
        self.line(f"{word.capitalize()}.{said}", DIM if run.status != "error" else RED, MARGIN)

    def show_pause(self, ask: Pause) -> None:
        self._leave_call()
        self.terminal.gap()
        title = words.paused(ask.pause)
        self.line(one_line(f"{title[:1].upper()}{title[1:]}.", 500), BOLD)
        if ask.pause.unpriced:
            self.line(words.CARD["costUnknown"].format(of=ask.pause.of), "", MARGIN)
        for said in meters(ask):
            self.line(said, "", MARGIN)
        self.line(f"{words.PAUSED_BEFORE} {words.CARD['nothingLost']}", "", MARGIN)

    # Calls

    def show_call(self, call: ToolCallView, *, most: int | None = None, place: str = "") -> None:
        """A call as its card shows it: all of it, unless nobody is asked."""
        self.end_text()
        self._headed.add(call.tool_call_id)
        self._write_head(call, place)
        if call.tool_name == ASK_USER:
            self.show_question(call)
            return
        for fact in call.preview.facts if call.preview is not None else ():
            self.line(one_line(fact, 400), DIM, MARGIN)
        language, code = code_of(call)
        if code:
            self.terminal.code(code, language, most=most)
        for name, value in other_arguments(call, code):
            self.terminal.lines([(DIM, f"{safe_code(name)}: "), ("", safe_code(value))], MARGIN, OUTPUT_MARGIN)
        if call.preview is not None and call.preview.left_out:
            self.line(one_line(call.preview.left_out, 400), DIM, MARGIN)
        for warning in call.warnings:
            said = [(BOLD, one_line(warning.title)), ("", f" {safe_code(warning.detail)}")]
            self.terminal.lines(said, MARGIN, OUTPUT_MARGIN)

    def show_everything(self, call: ToolCallView) -> None:
        """The arguments in full, of which a long diff leaves something out."""
        self.end_text()
        self.terminal.code(pretty(call.tool_input), "json")

    def show_question(self, call: ToolCallView) -> None:
        question, choices = question_of(call)
        self._say_in_call(question)
        for number, choice in enumerate(choices, 1):
            self.terminal.lines([(BOLD, f"{number}  "), ("", one_line(choice, 1_000))], MARGIN, OUTPUT_MARGIN)

    def _say_in_call(self, text: str) -> None:
        flow = Flow(self.terminal)
        flow.feed(safe_prose(text))
        flow.end()

    def ends_with(self, call: ToolCallView) -> bool:
        """Whether the call's lines are the last ones."""
        return self._open_call == call.tool_call_id

    def _head(self, call: ToolCallView) -> None:
        """A head, unless the call's own lines are right above."""
        self.end_text(but=call.tool_call_id)
        if self._open_call != call.tool_call_id:
            self._headed.add(call.tool_call_id)
            self._write_head(call)

    def _write_head(self, call: ToolCallView, place: str = "") -> None:
        self.terminal.gap()
        self._open_call = call.tool_call_id
        asks = call.state == "executing" and call.tool_name == ASK_USER
        word = words.CARD["asking"] if asks else words.STATES[call.state]
        summary = "" if call.tool_name == ASK_USER else one_line(summary_of(call), 80)
        style = BOLD if asks or call.state in ("awaiting_approval", "unknown") else DIM
        name = [(BOLD, f"* {one_line(call.tool_name, 60)}"), ("", f"  {summary}" if summary else "")]
        self.terminal.lines([*name, (style, f"  {word}{place}")])

    def _show_output(self, call_id: str, output: OutputView) -> None:
        outputs = self._outputs.setdefault(call_id, Outputs(self.terminal))
        outputs.add(output)

    def show_outcome(self, call: ToolCallView) -> None:
        if (outputs := self._outputs.get(call.tool_call_id)) is not None:
            outputs.end()
        elif call.result and call.state in ("success", "error") and call.tool_name != ASK_USER:
            self._show_output(call.tool_call_id, OutputView(kind="stream", text=call.result))
            self._outputs[call.tool_call_id].end()
        if call.tool_name == ASK_USER and call.state == "success":
            self.terminal.lines([(BOLD, "Answer: "), ("", one_line(call.result or "", 1_000))], MARGIN)
            return
        if call.state == "denied" and call.by == "user":
            return  # the line of the decision has said it
        took = words.duration(call.duration_ms) if call.duration_ms is not None and not call.recorded else ""
        who = words.decided(call) if call.state in ("success", "error") and call.by == "policy" else ""
        said = ", ".join(part for part in (words.STATES[call.state], took, who) if part)
        self.terminal.lines([(_COLOURS.get(call.state, DIM), said), ("", meaning(call))], MARGIN)
        if call.output_file:
            self.line(f"The whole output is in {one_line(call.output_file, 500)}", DIM, MARGIN)

    # Lines

    def problem(self, code: str, message: str) -> None:
        title = next((said for name, said in words.PROBLEMS.items() if name == code), "")
        if message.startswith(words.OWN_TITLES):
            title = ""
        self.end_text()
        said = one_line(message, 1_000)
        self.terminal.lines([(RED, title), ("", f" {said}" if title else said)], MARGIN)

    def line(self, text: str = "", style: str = "", margin: str = "") -> None:
        """A line of our own, with a text that is safe."""
        self.end_text()
        self.terminal.line(text, style, margin)

    def end_text(self, but: str = "") -> None:
        """End lines that may go on: the answer's, and the outputs of calls."""
        if self._flow is not None:
            self._flow.end()
            self._flow = None
        for name, outputs in self._outputs.items():
            if name != but:
                outputs.end_line()
