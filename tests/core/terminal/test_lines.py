"""What a terminal shows of a conversation, whatever the model and its tools say."""

import io
import json
from typing import Any
from unicodedata import east_asian_width

import pytest

from agent_kernel.protocol.views import (
    ConversationView,
    ErrorView,
    MessageView,
    OutputView,
    Preview,
    RunView,
    ToolCallView,
    Usage,
    Warning,
)
from agent_kernel.terminal.lines import Printer, Terminal
from agent_kernel.terminal.questions import questions_in
from tests.core.record.record_examples import a_run

NOW = "2026-11-22T18:00:00.000Z"
HOSTILE = (
    "a\x1b[2J\x1b[1;1Hb\x1b]0;title\x07c\x1b]52;c;c3RlYWw=\x1b\\d\x9b31me\x07\x08\x7f\u202ef\u200b\n"
    "* run_python  rm  Waiting for you\n> yes\rover\n\n" + "x" * 500 + " " + "界" * 200
)
NAMES = {"run_id": "run", "conversation_id": "chat", "prompt": "Add up."}
RUN = a_run(**NAMES, status="running", usage=Usage(), started_at=NOW, ended_at=None)


class Page:
    """A conversation on a terminal of so many columns, whose text can be read."""

    def __init__(self, columns: int = 80) -> None:
        self._out = io.StringIO()
        self._printer = Printer(Terminal(self._out, lambda: columns), self._view("", RUN, []))

    def show(self, answer: str = "", *calls: ToolCallView, **run: Any) -> str:
        self._printer.show(self._view(answer, RUN.model_copy(update=run), list(calls)))
        return self._out.getvalue()

    def _view(self, answer: str, run: RunView, calls: list[ToolCallView]) -> ConversationView:
        said = {"message_id": "answer", "role": "assistant", "content": answer, "run_id": "run"}
        message = MessageView(**said, tool_calls=[call.tool_call_id for call in calls])
        return ConversationView(
            conversation_id="chat", kernel_id=None, model=None, status="running", created_at=NOW,
            messages=[message], tool_calls=calls, last_seq=1, runs=[run],
        )  # fmt: skip


def a_call(state: Any = "awaiting_approval", code: str = "1 + 1", **fields: Any) -> ToolCallView:
    values = {"tool_call_id": "call", "approval_id": "a", "conversation_id": "chat", "run_id": "run", "digest": "d"}
    values |= {"tool_name": "run_python", "tool_input": json.dumps({"code": code}), "created_at": NOW}
    return ToolCallView(**values | {"state": state} | fields)


def assert_harmless(text: str, columns: int) -> None:
    assert not [one for one in text if one != "\n" and (ord(one) < 32 or 0x7F <= ord(one) < 0xA0)]
    for line in text.split("\n"):
        assert sum(2 if east_asian_width(character) in "FW" else 1 for character in line) < columns, line
        assert line[:1] in ("", " ", "*"), line
    assert f"\n{text}".count("\n* ") <= 1


@pytest.mark.parametrize("columns", [24, 200])
def test_nothing_that_a_model_says_acts_on_the_terminal_or_begins_a_line_of_ours(columns: int) -> None:
    text = Page(columns).show(HOSTILE)
    assert_harmless(text, columns)
    unwrapped = text.replace("\n", "").replace(" ", "")
    assert ("U+001B" in unwrapped, "U+202E" in unwrapped) == (True, True)


@pytest.mark.parametrize(
    "fields",
    [
        {"tool_input": HOSTILE},
        {"preview": Preview(kind="diff", text=HOSTILE, facts=[HOSTILE], left_out=HOSTILE)},
        {"tool_name": "ask_user", "tool_input": json.dumps({"question": HOSTILE, "choices": [HOSTILE]})},
        {"state": "success", "outputs": [OutputView(kind="stream", text=HOSTILE)], "output_file": HOSTILE},
        {"state": "success", "outputs": [OutputView(kind="display", data={"text/html": f"<b>{HOSTILE}"})]},
    ],
)
def test_no_text_of_a_call_acts_on_the_terminal_or_begins_a_line_of_ours(fields: dict[str, Any]) -> None:
    assert_harmless(Page(50).show("", a_call(**fields)), 50)


def test_all_of_a_waiting_call_is_shown_with_its_warnings_and_the_arguments_beside_its_code() -> None:
    code = "\n".join(f"line_{number} = {number}" for number in range(1, 301))
    arguments = json.dumps({"code": code, "timeout": 5})
    text = Page().show("", a_call(tool_input=arguments, warnings=[Warning(title="Writes files:", detail="x.csv")]))
    assert "* Run Python line_1 = 1: Waiting for you\n  │ line_1 = 1\n" in text
    assert "  │ line_300 = 300\n  │ timeout: 5\n" in text
    assert "  Writes files: x.csv\n" in text


def test_a_diff_that_leaves_out_a_part_is_shown_with_the_whole_content() -> None:
    arguments = {"tool_name": "write_file", "tool_input": json.dumps({"path": "a.txt", "content": "one\ntwo"})}
    diff = Preview(kind="diff", text="+ one")
    assert "two" not in Page().show("", a_call(**arguments, preview=diff))
    cut = diff.model_copy(update={"left_out": "And 1 more change."})
    assert "content: one\n  │ two\n" in Page().show("", a_call(**arguments, preview=cut))


def test_what_was_said_is_not_said_again_and_a_run_that_fails_twice_says_so_twice() -> None:
    page, failure = Page(40), {"status": "error", "error": ErrorView(code="LLM_ERROR", message="It is down.")}
    first = page.show("The quick brown fox jumps over the lazy dog.", **failure, ended_at=NOW)
    assert "  The quick brown fox jumps over the \n  lazy dog.\n" in first
    assert "  The model did not answer. It is down." in first
    assert page.show("The quick brown fox jumps over the lazy dog.", **failure, ended_at=NOW) == first
    assert page.show(**failure, ended_at=NOW.replace("18", "19")).count("It is down.") == 2


def test_a_path_is_an_answer_and_a_command_that_comes_too_late_is_none() -> None:
    asked = a_call("executing", tool_name="ask_user", tool_input='{"question": "Where?", "choices": ["here"]}')
    page = ConversationView(
        conversation_id="chat", kernel_id=None, model=None, status="running", created_at=NOW,
        messages=[], tool_calls=[asked], last_seq=1, runs=[RUN],
    )  # fmt: skip
    question = questions_in(page, "conversations/chat")[0]
    sent = {line: question.reply_to(line) for line in ("1", "/data/x.csv", "", "/stop")}
    assert [reply.body if reply is not None else None for reply in sent.values()] == [
        {"output": "here"}, {"output": "/data/x.csv"}, {}, {},
    ]  # fmt: skip
    ended = page.model_copy(update={"runs": [], "tool_calls": []})
    assert questions_in(ended, "conversations/chat")[0].reply_to("/stop") is None
