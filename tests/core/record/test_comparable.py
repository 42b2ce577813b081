"""A record of a run that a person approved, and that of its replay, compare as equal, and nothing else does."""

from typing import Any

from agent_kernel.protocol.views import NoticeView, RunView, ToolCallView
from agent_kernel.protocol.vocabulary import RECORDING_CHANGED
from agent_kernel.record import render_record
from agent_kernel.record.comparable import comparable
from tests.core.record.record_examples import a_call, a_run, printed, raised, says


def record(calls: list[ToolCallView], answer: str = "312 rows.", run: RunView | None = None) -> str:
    return render_record(run or a_run(), [says("I look.", *calls), says(answer)], calls)["text/html"]


def live() -> list[ToolCallView]:
    return [
        a_call(1, decided_by="ana", outputs=[printed("312\n")], output_file="/home/ana/out.txt"),
        a_call(2, state="denied", decided_by="ana", reason="Not that.", duration_ms=None),
        a_call(3, state="error", decided_by="ana", duration_ms=200, outputs=[raised("KeyError: 'week'")]),
        a_call(4, "inspect_variables", {"names": ["orders"]}, by="policy", duration_ms=100),
    ]


def replayed(**changes: Any) -> list[ToolCallView]:
    later = {"by": "script", "decided_by": None, "decided_at": "2026-11-23T08:00:00.000Z", "duration_ms": 7}
    return [call.model_copy(update={**later, "output_file": None, **changes}) for call in live()]


def test_a_replay_differs_in_ids_times_figures_model_and_who_decided_and_compares_as_equal() -> None:
    one = comparable(record(live()))
    run = a_run(recorded=True, model="replay:orders.jsonl", run_id="run_2", continues=None)
    other = comparable(record(replayed(), run=run))
    assert one == other
    assert one.text.splitlines()[0] == "Find duplicate orders in `orders`."
    for gone in ("ana", "UTC", "0.3 s", "gpt", "run_1", "/home", "·"):
        assert gone not in one.text
    for kept in ("312 rows.", "I look.", "orders.head()", "Not that.", "KeyError", "Denied", "Failed"):
        assert kept in one.text


def test_what_a_record_says_is_compared() -> None:
    one = comparable(record(live())).text
    changed = replayed()
    changed[0] = changed[0].model_copy(update={"outputs": [printed("9\n")]})
    assert comparable(record(changed)).text != one
    assert comparable(record(replayed(), answer="9 rows.")).text != one
    assert comparable(record(replayed(tool_name="run_shell"))).text != one
    assert comparable(record(replayed()[:3])).text != one


def test_a_notice_that_the_recording_differed_is_told_apart_from_what_is_compared() -> None:
    content, at = f"{RECORDING_CHANGED}: line 3.", "2026-11-20T14:02:30.000Z"
    notice = NoticeView(content=content, detail="It was 1 and is 9.", steps=0, at=at)
    told = comparable(record(live(), run=a_run(notices=[notice])))
    assert told.text == comparable(record(live())).text
    assert list(told.changes) == [f"{content}\nIt was 1 and is 9."]
