"""What a terminal shows of a conversation, whatever the model and its tools say."""

from dataclasses import replace
from typing import Any

import pytest

from agent_kernel.protocol.events import (
    ApprovalResponseEvent,
    MessageEvent,
    RunEvent,
    TokenEvent,
    ToolCompleteEvent,
    ToolOutputEvent,
    ToolStartEvent,
)
from agent_kernel.protocol.views import OutputView, PauseView, Preview, Warning
from agent_kernel.runtime.clients.session import REPLAYED_EVENTS
from agent_kernel.terminal.connection import FAR_BEHIND
from agent_kernel.terminal.text import cells
from tests.core.terminal.views import Page, call_view, run_view

HOSTILE = (
    "a\x1b[2J\x1b[1;1Hb\x1b]0;title\x07c\x1b]52;c;c3RlYWw=\x1b\\d\x9b31me\x07\x08\x7f\u202ef\u200b\n"
    "* run_python  rm  Waiting for you\n> yes\rover\n\n" + "x" * 500 + " " + "界" * 200
)
ENVELOPE = {"conversation_id": "chat", "run_id": "run", "seq": 2}


def said(content: str, message_id: str = "m1") -> TokenEvent:
    return TokenEvent(**ENVELOPE, message_id=message_id, content=content)


def output(text: str, kind: Any = "stream", **fields: Any) -> ToolOutputEvent:
    return ToolOutputEvent(**ENVELOPE, tool_call_id="call", index=0, output=OutputView(kind=kind, text=text, **fields))


def assert_harmless(text: str, columns: int) -> None:
    assert not [one for one in text if one != "\n" and (ord(one) < 32 or 0x7F <= ord(one) < 0xA0)]
    for line in text.split("\n"):
        assert sum(map(cells, line)) < columns, line
        assert line[:1] in ("", " ", "*", ">"), line


@pytest.mark.parametrize("columns", [20, 80, 200])
def test_nothing_that_a_model_says_acts_on_the_terminal_or_begins_a_line_of_ours(columns: int) -> None:
    page = Page(columns=columns)
    pieces = [said(HOSTILE[start : start + 3]) for start in range(0, len(HOSTILE), 3)]
    text = page.show(*pieces)
    assert_harmless(text, columns)
    assert "\n* " not in f"\n{text}"
    assert "\n> " not in f"\n{text}"
    unwrapped = text.replace("\n", "").replace(" ", "")
    assert "U+001B" in unwrapped
    assert "U+202E" in unwrapped


@pytest.mark.parametrize("kind", ["stream", "error", "display"])
def test_nothing_that_a_tool_prints_acts_on_the_terminal_or_begins_a_line_of_ours(kind: Any) -> None:
    page = Page(call_view(state="executing"), columns=60)
    data = {"data": {"text/plain": HOSTILE}} if kind == "display" else {}
    text = page.show(output(HOSTILE, kind, **data))
    assert_harmless(text, 60)
    head, *lines = text.removeprefix("\n").split("\n")
    assert head.startswith("* run_python")
    assert all(line.startswith("    ") or not line for line in lines)


@pytest.mark.parametrize("place", ["tool_name", "tool_input", "reason", "decided_by", "warning", "prompt"])
def test_no_text_of_a_card_acts_on_the_terminal(place: str) -> None:
    warnings = [Warning(title=HOSTILE, detail=HOSTILE)] if place == "warning" else []
    fields = {place: HOSTILE} if place in ("tool_name", "tool_input") else {}
    page = Page(call_view(warnings=warnings, **fields), columns=50)
    page.transcript.show_call(page.conversation.calls["call"])
    prompt = {"prompt": HOSTILE} if place == "prompt" else {}
    decision: dict[str, Any] = {place: HOSTILE} if place in ("reason", "decided_by") else {}
    response = ApprovalResponseEvent(
        **ENVELOPE, approval_id="approval-call", tool_call_id="call", approved=False, by="user", **decision
    )
    text = page.show(RunEvent(**ENVELOPE, run=run_view(**prompt)), response)
    assert_harmless(text, 50)


def test_an_answer_appears_word_by_word_and_wraps_at_the_width() -> None:
    page = Page(columns=30)
    page.conversation.apply(said("The quick brown "))
    page.transcript.show(said("The quick brown "))
    assert page.text == "  The quick brown "
    text = page.show(said("fox jumps over the lazy"), said(" dog."))
    assert text == "  The quick brown fox jumps \n  over the lazy dog.\n"


def test_all_of_a_waiting_call_is_shown_numbered() -> None:
    code = "\n".join(f"line_{number} = {number}" for number in range(1, 61))
    page = Page(call_view(tool_input=f'{{"code": {code!r}, "timeout": 5}}'.replace("'", '"')))
    page.transcript.show_call(page.conversation.calls["call"])
    assert "  60 │ line_60 = 60\n" in page.text
    assert "  timeout: 5\n" in page.text
    assert "Waiting for you" in page.text


def test_an_edited_call_is_not_shown_by_the_preview_of_what_the_model_wrote() -> None:
    page = Page(call_view(preview=Preview(kind="code", language="python", text="model()")))
    events = ENVELOPE | {"tool_call_id": "call"}
    page.conversation.apply(
        ApprovalResponseEvent(**events, approval_id="approval-call", approved=True, by="user", edited=True)
    )
    start = ToolStartEvent(**events, tool_name="run_python", tool_input='{"code": "mine()"}')
    assert "mine()" in page.show(start)
    assert "model()" not in page.text


def test_who_decided_elsewhere_is_named() -> None:
    page = Page(call_view())
    events = ENVELOPE | {"tool_call_id": "call", "approval_id": "approval-call"}
    denied = ApprovalResponseEvent(**events, approved=False, by="user", decided_by="ana", reason="not that one")
    assert 'Denied by ana: "not that one" Nothing ran.' in page.show(denied)


def test_outputs_of_a_call_are_bounded() -> None:
    page = Page(call_view(state="executing"))
    for _ in range(30):
        page.show(output("line\n" * 100))
    text = page.show(output("end\n"))
    assert text.count("line\n") == 200
    assert text.count("more output, not shown here") == 1


def test_a_progress_line_is_shown_as_it_was_at_last() -> None:
    page = Page(call_view(state="executing"))
    text = page.show(*(output(f"\r{percent} %") for percent in range(0, 101, 10)), output("\ndone\n"))
    assert "100 %" in text
    assert "50 %" not in text.replace("0 %\n", "")


def test_a_picture_is_named_and_an_outcome_says_how_long_it_took() -> None:
    page = Page(call_view(state="executing"))
    picture = output("", "display", data={"image/png": "aGk=", "text/plain": "<Figure>"})
    events = ENVELOPE | {"tool_call_id": "call"}
    done = ToolCompleteEvent(
        **events, tool_name="run_python", tool_result="", status="success", state="success", duration_ms=320
    )
    text = page.show(picture, done)
    assert "[picture]" in text
    assert "Done, 0.3 s." in text


def test_a_pause_says_what_is_spent_and_is_asked_about_once() -> None:
    pause = PauseView(pause_id="pause", reached=["tokens"], seconds=3, since="2026-11-22T18:00:00Z")
    budget = replace(run_view().budget, tokens=1_000)
    usage = run_view().usage.model_copy(update={"total_tokens": 1_200})
    run = run_view(paused=pause, budget=budget, usage=usage)
    page = Page(asks=False)
    text = page.show(RunEvent(**ENVELOPE, run=run), RunEvent(**ENVELOPE, run=run))
    assert text.count("The budget is reached.") == 1
    assert "Tokens: 1,200 of 1,000" in text
    (ask,) = page.conversation.asks()
    page.conversation.answered.add(ask.key)
    assert page.conversation.asks() == []


def test_an_answer_that_did_not_come_in_pieces_is_shown_once() -> None:
    whole = MessageEvent(**ENVELOPE, message_id="m1", role="assistant", content="Forty-two.")
    assert Page().show(said("Forty-two."), whole).count("Forty-two.") == 1
    assert Page().show(whole).count("Forty-two.") == 1


def test_a_client_knows_when_the_server_stops_sending_what_was_missed() -> None:
    assert FAR_BEHIND == REPLAYED_EVENTS
