"""The parts of what is shown of calls and pauses: outputs, arguments, decisions, figures."""

import json
from collections.abc import Sequence
from typing import assert_never

from agent_kernel.protocol.budgets import BudgetLimits
from agent_kernel.protocol.events import (
    ApprovalResponseEvent,
    ServerEvent,
    ToolAnsweredEvent,
    ToolStateEvent,
    ToolUndoneEvent,
)
from agent_kernel.protocol.figures import money
from agent_kernel.protocol.views import OutputView, ToolCallView
from agent_kernel.protocol.vocabulary import Limit
from agent_kernel.record import words
from agent_kernel.record.results import joined
from agent_kernel.record.story import arguments_of, code_of
from agent_kernel.terminal.state import ASK_USER, Pause
from agent_kernel.terminal.text import DIM, RED, Flow, Terminal, one_line, safe_output

OUTPUT_LINES, OUTPUT_CHARACTERS = 200, 20_000
"""The most of one call's outputs that is printed."""
OUTPUT_MARGIN = "    "


class Outputs:
    """One call's outputs, as many as are printed of them."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._line = ""
        """The beginning of a line whose end has not come."""
        self._lines = 0
        self._characters = 0
        self._full = False

    def add(self, output: OutputView) -> None:
        match output.kind:
            case "stream":
                *lines, self._line = (self._line + output.text).replace("\r\n", "\n").split("\n")
                self._write(lines)
                if len(self._line) > OUTPUT_CHARACTERS:
                    self.end_line()
            case "display":
                self.end_line()
                self._write(_display(output).split("\n"))
            case "error":
                self.end_line()
                self._write(output.text.split("\n"), RED)
            case "clear":
                self.end_line()
            case _:
                assert_never(output.kind)

    def end_line(self) -> None:
        if self._line:
            line, self._line = self._line, ""
            self._write([line])

    def end(self) -> None:
        self.end_line()

    def _write(self, lines: Sequence[str], style: str = "") -> None:
        for line in lines:
            if self._full:
                return
            said = safe_output(line[:OUTPUT_CHARACTERS])
            self._lines += 1
            self._characters += len(said)
            flow = Flow(self._terminal, OUTPUT_MARGIN, style=style)
            flow.feed(said)
            flow.end() if said.strip() else self._terminal.write([("", "\n")])
            if self._lines >= OUTPUT_LINES or self._characters >= OUTPUT_CHARACTERS:
                self._full = True
                self._terminal.line("… more output, not shown here.", DIM, OUTPUT_MARGIN)


def _display(output: OutputView) -> str:
    plain = joined(output.data.get("text/plain"))
    if any(kind.startswith("image/") for kind in output.data):
        return f"[{words.display_name(output.data)}]"
    for kind in ("text/plain", "text/markdown", "text/latex"):
        if isinstance(text := plain if kind == "text/plain" else joined(output.data.get(kind)), str) and text:
            return text
    return f"[{words.display_name(output.data)}]"


def person(name: str | None) -> str:
    return one_line(name or words.CARD["anotherTab"], 60)


def news(event: ServerEvent, call: ToolCallView) -> str:
    """What happened to a call, if it is worth a line."""
    match event:
        case ToolStateEvent():
            cell = event.waiting_behind
            return "" if cell is None else words.CARD["behindCell"].format(cell=cell)
        case ApprovalResponseEvent():
            return decision(call) if event.by == "user" or not event.approved else ""
        case ToolAnsweredEvent():
            name = words.ACTIONS["runAgain" if event.answer == "retry" else "goOn"]
            return f"{name}, chosen by {person(event.decided_by)}."
        case ToolUndoneEvent():
            return "The file was put back."
        case _:
            return ""


def decision(call: ToolCallView) -> str:
    """Who decided, and why: `Approved by you.`, `Denied by ana: "not that file" Nothing ran.`"""
    who = words.decider(call.by or "user", call.decided_by)
    who = one_line(who, 60)
    if call.state == "denied":
        reason = f': "{one_line(call.reason, 1_000)}"' if call.reason else "."
        return f"{words.STATES['denied']} by {who}{reason} {words.NOTHING_RAN}"
    return f"{'Edited and approved' if call.edited else 'Approved'} by {who}."


def meaning(call: ToolCallView) -> str:
    """What an outcome means for the person."""
    reason = f" {one_line(call.reason, 1_000)}" if call.reason else ""
    match call.state:
        case "unknown":
            said = reason or f" {words.CARD['nobodyKnows']}"
            return f".{said} {words.MAY_HAVE_RUN}"
        case "cancelled" if call.tool_name == ASK_USER:
            return f". {words.CARD['notAnswered']}"
        case "cancelled":
            return f".{reason}" if reason else "."
        case "invalid":
            return f".{reason} {words.MODEL_TOLD}"
        case "superseded" | "expired":
            return f".{reason} {words.NOTHING_RAN}"
        case "denied":
            return "."
        case _:
            return "."


_IN_A_DIFF = frozenset({"content", "old", "new", "old_text", "new_text", "old_string", "new_string"})


def other_arguments(call: ToolCallView, code: str) -> list[tuple[str, str]]:
    """The arguments that the code or diff does not show: all of a call is on screen."""
    arguments = arguments_of(call)
    if arguments is None or (call.preview is None and code == call.tool_input):
        return []
    shown = code_of(call)
    if shown[0] == "json":
        return []
    diff = call.preview is not None and call.preview.kind == "diff"
    details = {warning.detail for warning in call.warnings}
    found = []
    for name, value in arguments.items():
        text = value if isinstance(value, str) else _json(value)
        if value is None or text == code or (diff and name in _IN_A_DIFF) or text in details:
            continue
        found.append((name, text))
    return found


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def pretty(text: str) -> str:
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text


def question_of(call: ToolCallView) -> tuple[str, list[str]]:
    """The question, and the answers that the model offers."""
    arguments = arguments_of(call) or {}
    choices = arguments.get("choices", arguments.get("options"))
    question = arguments.get("question")
    listed = [str(one) for one in choices[:50]] if isinstance(choices, list) else []
    return (question if isinstance(question, str) else ""), listed


def limits_of(ask: Pause) -> BudgetLimits:
    of_all = ask.run.conversation_budget
    return of_all.limits if ask.pause.of == "conversation" and of_all is not None else ask.run.budget


def meters(ask: Pause) -> list[str]:
    """What is spent of each limit: `Tokens: 12,000 of 10,000`."""
    if ask.pause.repeated:
        return []
    limits, of_all = limits_of(ask), ask.run.conversation_budget
    before = of_all.spent if ask.pause.of == "conversation" and of_all is not None else None
    found = []
    for name, said in words.LIMITS.items():
        most = getattr(limits, name)
        if most is None:
            continue
        if name == "usd" and ask.pause.unpriced:
            found.append(f"{said['title']}: not known, of {money(most)}")
            continue
        of_run, of_others = _spent(name, ask), _figure(name, before)
        found.append(f"{said['title']}: {amount(name, of_run + of_others)} of {amount(name, most)}")
    return found


def _spent(name: Limit, ask: Pause) -> float:
    return ask.pause.seconds if name == "seconds" else _figure(name, ask.run.usage)


def _figure(name: Limit, usage: object) -> float:
    if usage is None:
        return 0
    fields = {"tokens": "total_tokens", "usd": "cost"}
    return float(getattr(usage, fields.get(name, name)) or 0)


def amount(name: Limit, value: float) -> str:
    if name == "usd":
        return money(value)
    return words.duration(value * 1000).removesuffix(" 0 s") if name == "seconds" else f"{value:,.0f}"
