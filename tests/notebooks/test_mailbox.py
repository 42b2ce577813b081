"""Nothing runs twice, whoever deposits, claims and withdraws, in whatever order and at whatever moment."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_kernel.notebook.execution.mailbox import KEPT_CALLS, Entry, Mailbox
from agent_kernel.protocol.calls import ApprovedCall, Outcome
from agent_kernel.protocol.views import OutputView

DONE = Outcome("success", "done")


class Watch:
    def __init__(self) -> None:
        self.ended: list[str] = []
        self.indexes: list[int] = []

    def output(self, approval_id: str, index: int, output: OutputView) -> None:
        self.indexes.append(index)

    def done(self, approval_id: str, outcome: Outcome, outputs: int) -> bool:
        self.ended.append(approval_id)
        return False


def call(name: str) -> ApprovedCall:
    return ApprovedCall(name, "call_0", "run_python", "{}", "digest")


def finish(mailbox: Mailbox, entry: Entry) -> None:
    mailbox.code_ended(entry)
    mailbox.finish(entry, DONE)


STEPS = st.lists(st.tuples(st.sampled_from(["deposit", "claim", "claim any", "finish", "withdraw"]), st.integers(0, 3)))


@given(STEPS)
def test_a_call_is_claimed_at_most_once_and_ends_at_most_once(steps: list[tuple[str, int]]) -> None:
    mailbox, watch = Mailbox(), Watch()
    claimed: Counter[str] = Counter()
    running: list[Entry] = []
    for step, number in steps:
        name = f"call {number}"
        if step == "deposit":
            mailbox.deposit(call(name), watch)
        elif step == "withdraw":
            withdrawn = mailbox.withdraw(name)
            assert not (withdrawn and claimed[name]), "a call that was claimed can't be withdrawn"
        elif step == "finish":
            if running:
                finish(mailbox, running.pop())
        else:
            entry = mailbox.claim(name if step == "claim" else None)
            assert entry is None or not running, "one call runs at a time"
            if entry is not None:
                claimed[entry.call.approval_id] += 1
                running.append(entry)
    assert set(claimed.values()) <= {1}
    assert set(Counter(watch.ended).values()) <= {1}


def test_of_many_threads_that_claim_at_once_one_gets_each_call() -> None:
    mailbox, watch = Mailbox(), Watch()
    ran: Counter[str] = Counter()
    barrier = threading.Barrier(8)

    def work() -> None:
        barrier.wait()
        while not all(watch.ended.count(f"call {n}") for n in range(50)):
            entry = mailbox.claim()
            if entry is not None:
                ran[entry.call.approval_id] += 1
                finish(mailbox, entry)

    with ThreadPoolExecutor(8) as pool:
        workers = [pool.submit(work) for _ in range(8)]
        for number in range(50):
            mailbox.deposit(call(f"call {number}"), watch)
        for worker in workers:
            worker.result(timeout=30)
    assert set(ran.values()) == {1}
    assert len(ran) == 50


def test_only_the_code_of_the_call_that_runs_may_claim_another() -> None:
    mailbox, watch = Mailbox(), Watch()
    for name in ("outer", "inner"):
        mailbox.deposit(call(name), watch)
    outer = mailbox.claim("outer")
    assert outer is not None
    assert mailbox.claim("inner") is None
    inner = mailbox.claim("inner", inside="outer")
    assert inner is not None
    finish(mailbox, inner)
    finish(mailbox, outer)
    assert watch.ended == ["inner", "outer"]


def test_outputs_are_collected_from_any_index_on() -> None:
    mailbox, watch = Mailbox(), Watch()
    mailbox.deposit(call("a"), watch)
    entry = mailbox.claim("a")
    assert entry is not None
    for text in "xyz":
        mailbox.output(entry, OutputView(kind="stream", name="stdout", text=text))
    finish(mailbox, entry)
    assert watch.indexes == [0, 1, 2]
    found = mailbox.collect("a", 1)
    assert (found.state, [output.text for output in found.outputs], found.outcome) == ("done", ["y", "z"], DONE)


def test_a_call_that_is_long_done_is_forgotten_but_never_runs_again() -> None:
    mailbox, watch = Mailbox(), Watch()
    for number in range(KEPT_CALLS + 2):
        mailbox.deposit(call(f"call {number}"), watch)
        entry = mailbox.claim()
        assert entry is not None
        finish(mailbox, entry)
        assert mailbox.collect(f"call {number}").outcome == DONE
    assert mailbox.collect("call 0").state == "unknown"
    mailbox.deposit(call("call 0"), watch)
    assert mailbox.claim("call 0") is None


def test_of_many_calls_that_end_before_anybody_asks_no_outcome_is_forgotten() -> None:
    mailbox, watch = Mailbox(), Watch()
    names = [f"call {number}" for number in range(4 * KEPT_CALLS)]
    for name in names:
        mailbox.deposit(call(name), watch)
        entry = mailbox.claim(name)
        assert entry is not None
        finish(mailbox, entry)
    assert [mailbox.collect(name).outcome for name in names] == [DONE] * len(names)
    mailbox.deposit(call("later"), watch)
    assert mailbox.phase(names[0]) == "unknown"
    assert mailbox.phase(names[-1]) == "done"


@pytest.mark.parametrize("name", ["never seen", "withdrawn"])
def test_there_is_nothing_to_withdraw_twice(name: str) -> None:
    mailbox, watch = Mailbox(), Watch()
    mailbox.deposit(call("withdrawn"), watch)
    mailbox.withdraw("withdrawn")
    assert mailbox.withdraw(name) is False
