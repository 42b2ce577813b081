"""What must hold in a round on a runtime process: after a kill, after the restart, and when all has ended."""

from collections import defaultdict
from typing import Any

from tests.faults import checks, life
from tests.faults.planned_model import mark_of
from tests.faults.runtime_driver import Calls, Round


def check_after_kill(round_: Round, before: Calls) -> None:
    """The log of a dead process: what was acknowledged is in it."""
    for call_id, call in before.items():
        if call["approval_id"] in round_.approved and call["state"] == "awaiting_approval":
            round_.fault("approvals_lost", f"{call_id} was decided, and waits again")
        if call_id in round_.answered and call["unknown_answer"] is None:
            round_.fault("approvals_lost", f"{call_id} was answered for, and is asked about again")


def check_recovery(round_: Round, before: Calls, view: dict[str, Any]) -> None:
    """The first snapshot after a restart against the log of the dead process."""
    after = {call["tool_call_id"]: call["state"] for call in view["tool_calls"]}
    for call_id, call in before.items():
        if call["run_status"] in checks.ENDED:
            continue
        waiting = "awaiting_approval" if round_.setup.kernel_there else "cancelled"
        expected = {"awaiting_approval": waiting, "executing": "unknown"}.get(call["state"])
        if expected not in (None, after[call_id]):
            name = "approvals_lost" if call["state"] == "awaiting_approval" else "dishonest_states"
            round_.fault(name, f"{call_id} was {call['state']} and is {after[call_id]} after the restart")


def check_end(round_: Round) -> None:
    """All has ended: the log, the counter file, what clients show and what the model was told agree."""
    _check_calls(round_, checks.read_log(round_.setup.log_path))
    frames = checks.read_frames(round_.setup.log_path, life.CONVERSATION)
    for card, state in checks.cards(frames).items():
        if state not in checks.FINAL:
            round_.fault("buttons_dead", f"the card {card} is left {state}")
    for note in checks.gaps((frame["seq"] for frame in frames), 0) + checks.gaps(sorted(round_.frames), 0):
        round_.fault("events_missing", note)
    _check_told(round_)


def _check_calls(round_: Round, calls: Calls) -> None:
    """A call that is asked for again leaves the same mark, so marks are counted over all calls that may leave them."""
    counter = checks.counted(round_.setup.counter)
    same: dict[str, Calls] = defaultdict(dict)
    for call_id, call in calls.items():
        if call["state"] not in checks.FINAL or call["run_status"] not in checks.ENDED:
            round_.fault("dishonest_states", f"{call_id} is {call['state']} in a run that is {call['run_status']}")
        if call["state"] != "invalid":
            same[mark_of(call["tool_input"])][call_id] = call
    for mark, group in same.items():
        _check_mark(round_, group, counter.pop(mark, 0))
    for mark in counter:
        round_.fault("ran_undecided", f"{mark} was left by no call of the log")


def _check_mark(round_: Round, group: Calls, times: int) -> None:
    """Calls with the same arguments, in the order in which they were asked for, and how often they ran."""
    names = ", ".join(group)
    may_have_run = [call for call in group.values() if call["state"] not in checks.DID_NOT_RUN and call["by"]]
    if times > max(1, len(may_have_run)):
        round_.fault("calls_run_twice", f"{names} ran {times} times")
    elif times > len(may_have_run):
        round_.fault("ran_undecided", f"{names} ran, and nobody let it")
    if times < len([call for call in may_have_run if call["state"] == "success"]):
        round_.fault("dishonest_states", f"{names} is called a success more often than it ran")
    in_question = False
    for call_id, call in group.items():
        if in_question and call["by"] not in (None, "user"):
            round_.fault("ran_undecided", f"{call_id} repeats a call whose outcome is unknown, by {call['by']}")
        in_question = in_question or call["state"] == "unknown"


def _check_told(round_: Round) -> None:
    requests = round_.requests()
    for request in requests:
        for note in checks.orphans(request.body["messages"]):
            round_.fault("orphan_tool_calls", note)
    told = [str(message.get("content")) for message in requests[-1].body["messages"]] if requests else []
    for text in round_.said:
        if not any(text in content for content in told):
            round_.fault("messages_lost", f"the model never heard {text!r}")
