"""What a saved notebook says of a run that goes on: in words, bounded, and the same as long as nothing happens."""

import html
import re
from typing import Any

import pytest

from agent_kernel.protocol.run_results import RunProgress
from agent_kernel.protocol.views import PauseView, RunView, ToolCallView, Warning
from agent_kernel.protocol.vocabulary import CallState
from agent_kernel.record.so_far import AS_SAVED, render_so_far
from tests.core.record.record_examples import a_call, a_run

HOSTILE = "<script>alert(1)</script> ![x](https://evil.example/x.png) [y](javascript:alert(1)) \u202e"

PAUSE = PauseView(pause_id="p", reached=["steps"], seconds=1, since="2026-11-21T08:30:00Z")


def progress(
    run: RunView, *calls: ToolCallView, ended: dict[CallState, int] | None = None, ahead: RunView | None = None
) -> RunProgress:
    return RunProgress(run, calls, ended or {}, ahead, ahead_waits=ahead is not None and ahead.paused is not None)


def plain(run: RunView, *calls: ToolCallView, **more: Any) -> str:
    return render_so_far(progress(run, *calls, **more))["text/plain"]


def open_run(**fields: object) -> RunView:
    return a_run(**{"status": "running", "ended_at": None, **fields})


def open_call(state: CallState, name: str = "run_python", text: str = '{"code": "df.head()"}') -> ToolCallView:
    return a_call(tool=name, arguments=text, state=state)


def test_what_waits_comes_first_with_its_code_and_what_was_found_in_it() -> None:
    running = open_call("executing").model_copy(update={"tool_call_id": "call_2"})
    found = [Warning(title="Writes files:", detail="x")]
    waiting = open_call("awaiting_approval").model_copy(update={"warnings": found})
    said = plain(open_run(), running, waiting, ended={"success": 2, "denied": 1})
    assert said.startswith("Agent run: waiting for you. ")
    shown = ("Waiting for you: Run Python (run_python)", "    df.head()", "Writes files: x", "Running: Run Python")
    at = [said.index(words) for words in shown]
    assert at == sorted(at)
    assert said.endswith(f"So far: 3 steps: 2 done, 1 denied.\n\n{AS_SAVED}")


@pytest.mark.parametrize(
    ("run", "calls", "ahead", "said"),
    [
        (open_run(), (), None, "Running: the model is at work"),
        (
            open_run(status="queued"),
            (),
            open_run(prompt="Plot\n it", paused=PAUSE),
            "Queued behind “Plot it”, which waits for you",
        ),
        (open_run(paused=PAUSE), (), None, "Waiting for you: the budget is reached"),
        (
            open_run(),
            (open_call("executing", "ask_user", '{"question": "Which?", "choices": ["a", 2]}'),),
            None,
            "Waiting for you: Ask you (ask_user)\n\nWhich?\n\nTo choose from: a, 2",
        ),
    ],
)
def test_it_says_what_the_run_does(
    run: RunView, calls: tuple[ToolCallView, ...], ahead: RunView | None, said: str
) -> None:
    assert said in plain(run, *calls, ahead=ahead)


def test_what_others_wrote_can_do_nothing() -> None:
    call = open_call("awaiting_approval", HOSTILE, f'{{"code": "{HOSTILE}"}}')
    made = render_so_far(progress(open_run(prompt=HOSTILE), call, ahead=open_run(prompt=HOSTILE, paused=PAUSE)))
    assert [acts for acts in ("<script", "<img", 'href="javascript') if acts in made["text/html"]] == []
    for text in made.values():
        assert "\u202e" not in text
    assert "<script" not in re.sub(r"```.*?```", "", made["text/markdown"], flags=re.DOTALL)
    assert "alert(1)" in html.unescape(made["text/html"])


def test_it_is_bounded_and_says_what_is_left_out() -> None:
    long = open_call("awaiting_approval", text='{"code": "' + "x = 1; " * 50_000 + '"}')
    made = render_so_far(progress(open_run(prompt="p" * 200_000), *[long] * 200))
    assert all(len(text) < 200_000 for text in made.values())
    for words in ("And 180 more calls.", "Left out"):
        assert words in made["text/plain"]
