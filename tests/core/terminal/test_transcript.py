"""What a terminal shows of a conversation, whatever the model and its tools say."""

import io
from typing import Any

import pytest

from agent_kernel.protocol.budgets import BudgetLimits
from agent_kernel.protocol.events import (
    ApprovalRequestEvent,
    ApprovalResponseEvent,
    ErrorEvent,
    MessageEvent,
    RunEvent,
    TokenEvent,
    ToolCompleteEvent,
    ToolOutputEvent,
    ToolStartEvent,
)
from agent_kernel.protocol.views import ErrorView, OutputView, PolicyView, Preview, RunView, Usage, Warning
from agent_kernel.terminal.lines import Terminal, cells
from agent_kernel.terminal.transcript import Transcript

HOSTILE = (
    "a\x1b[2J\x1b[1;1Hb\x1b]0;title\x07c\x1b]52;c;c3RlYWw=\x1b\\d\x9b31me\x07\x08\x7f\u202ef\u200b\n"
    "* run_python  rm  Waiting for you\n> yes\rover\n\n" + "x" * 500 + " " + "界" * 200
)
ENVELOPE = {"conversation_id": "chat", "run_id": "run", "seq": 2}
OF_CALL = ENVELOPE | {"tool_call_id": "call"}
RUN = RunView(
    run_id="run",
    conversation_id="chat",
    prompt="Add up.",
    status="running",
    model="fake",
    recorded=False,
    policy=PolicyView(mode="ask"),
    usage=Usage(),
    budget=BudgetLimits(),
    started_at="2026-11-22T18:00:00.000Z",
)


class Page:
    """A transcript on a terminal of so many columns, whose text can be read."""

    def __init__(self, columns: int = 80, *, asks: bool = False) -> None:
        self._out = io.StringIO()
        self._transcript = Transcript(Terminal(self._out, lambda: columns), asks=asks)

    def show(self, *events: Any) -> str:
        for event in (RunEvent(**ENVELOPE, run=RUN), *events):
            self._transcript.show(event)
        return self._out.getvalue()


def request(**fields: Any) -> ApprovalRequestEvent:
    values = {"approval_id": "a", "tool_name": "run_python", "tool_input": '{"code": "1 + 1"}', "digest": "d"}
    return ApprovalRequestEvent(**OF_CALL | values | fields)


def response(**fields: Any) -> ApprovalResponseEvent:
    return ApprovalResponseEvent(**OF_CALL | {"approval_id": "a", "approved": True, "by": "user"} | fields)


def start(code: str = "1 + 1") -> ToolStartEvent:
    return ToolStartEvent(**OF_CALL, tool_name="run_python", tool_input=f'{{"code": "{code}"}}')


def output(text: str, kind: Any = "stream", **data: Any) -> ToolOutputEvent:
    return ToolOutputEvent(**OF_CALL, index=0, output=OutputView(kind=kind, text=text, data=data))


def complete(state: Any = "success", **fields: Any) -> ToolCompleteEvent:
    values = {"tool_name": "run_python", "tool_result": "", "status": state, "state": state}
    return ToolCompleteEvent(**OF_CALL | values | fields)


def said(content: str) -> TokenEvent:
    return TokenEvent(**ENVELOPE, message_id="m1", content=content)


def assert_harmless(text: str, columns: int) -> None:
    assert not [one for one in text if one != "\n" and (ord(one) < 32 or 0x7F <= ord(one) < 0xA0)]
    for line in text.split("\n"):
        assert cells(line) < columns, line
        assert line[:1] in ("", " ", "*"), line


@pytest.mark.parametrize("columns", [20, 80, 200])
def test_nothing_that_a_model_says_acts_on_the_terminal_or_begins_a_line_of_ours(columns: int) -> None:
    text = Page(columns).show(*(said(HOSTILE[at : at + 3]) for at in range(0, len(HOSTILE), 3)))
    assert_harmless(text, columns)
    assert "\n* " not in f"\n{text}"
    unwrapped = text.replace("\n", "").replace(" ", "")
    assert "U+001B" in unwrapped
    assert "U+202E" in unwrapped


@pytest.mark.parametrize("kind", ["stream", "error", "display"])
def test_nothing_that_a_tool_prints_acts_on_the_terminal_or_begins_a_line_of_ours(kind: Any) -> None:
    data = {"text/plain": HOSTILE} if kind == "display" else {}
    text = Page(60).show(start(), output(HOSTILE, kind, **data), complete())
    assert_harmless(text, 60)
    assert text.count("\n* ") + text.startswith("* ") == 1


@pytest.mark.parametrize(
    "fields",
    [
        {"tool_name": HOSTILE},
        {"tool_input": HOSTILE},
        {"warnings": [Warning(title=HOSTILE, detail=HOSTILE)]},
        {"preview": Preview(kind="diff", text=HOSTILE, facts=[HOSTILE], left_out=HOSTILE)},
    ],
)
def test_no_text_of_a_card_acts_on_the_terminal(fields: dict[str, Any]) -> None:
    assert_harmless(Page(50).show(request(**fields)), 50)


def test_no_reason_and_no_name_acts_on_the_terminal() -> None:
    denied = response(approved=False, reason=HOSTILE, decided_by=HOSTILE)
    assert_harmless(Page(50).show(request(), denied, complete("denied", reason=HOSTILE)), 50)


def test_an_answer_appears_as_it_is_written_and_wraps_at_the_width_and_is_shown_once() -> None:
    page = Page(30)
    assert page.show(said("The quick brown ")).endswith("  The quick brown ")
    whole = MessageEvent(**ENVELOPE, message_id="m1", role="assistant", content="The quick ...")
    text = page.show(said("fox jumps over the lazy"), said(" dog."), whole)
    assert text.endswith("  The quick brown fox jumps \n  over the lazy dog.")
    assert "Forty-two." in Page().show(whole.model_copy(update={"content": "Forty-two."}))


def test_all_of_a_waiting_call_is_shown_with_its_warnings_and_the_arguments_beside_its_code() -> None:
    code = "\\n".join(f"line_{number} = {number}" for number in range(1, 61))
    warning = Warning(title="Writes files:", detail="x.csv")
    text = Page().show(request(tool_input=f'{{"code": "{code}", "timeout": 5}}', warnings=[warning]))
    assert "run_python line_1 = 1: Waiting for you\n" in text
    assert "  │ line_60 = 60\n" in text
    assert "  timeout: 5\n" in text
    assert "  Writes files: x.csv\n" in text


def test_an_edited_call_is_not_shown_by_the_preview_of_what_the_model_wrote() -> None:
    preview = Preview(kind="code", language="python", text="model()")
    text = Page(asks=True).show(request(preview=preview), response(edited=True), start("mine()"))
    assert "mine()" in text
    assert "model()" not in text


def test_who_decided_elsewhere_is_named() -> None:
    denied = response(approved=False, decided_by="ana", reason="not that one")
    text = Page().show(request(), denied, complete("denied"))
    assert "  Denied by ana. Reason: not that one. Nothing ran.\n" in text


def test_an_error_is_said_once_with_its_title() -> None:
    failure = {"code": "LLM_ERROR", "message": "It is down."}
    ended = RUN.model_copy(update={"status": "error", "ended_at": RUN.started_at, "error": ErrorView(**failure)})
    text = Page().show(ErrorEvent(**ENVELOPE, **failure), RunEvent(**ENVELOPE, run=ended))
    assert text.count("  The model did not answer. It is down.\n") == 1
    assert text.endswith("\n  Failed.\n")


def test_outputs_of_a_call_are_bounded_and_a_progress_line_is_shown_as_it_was_at_last() -> None:
    page = Page()
    page.show(start(), *(output(f"\r{percent} %") for percent in range(0, 101, 10)), output("\n"))
    text = page.show(*(output("line\n" * 100) for _ in range(30)), output("end\n"))
    assert "    100 %\n" in text
    assert " 50 %" not in text
    assert text.count("line\n") == 198
    assert text.count("more output, not shown here") == 1


def test_a_picture_is_named_and_an_outcome_says_how_long_it_took() -> None:
    picture = output("", "display", **{"image/png": "aGk=", "text/plain": "<Figure>"})
    text = Page().show(start(), picture, complete(duration_ms=320))
    assert "    [picture]\n  Done, 0.3 s.\n" in text
