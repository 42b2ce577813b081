"""Calls on their way to the main thread. Claiming a call is atomic: nothing runs twice.

A call is deposited from another thread (the control thread, or the embedded runtime's), claimed by the main thread, and
stays readable for a while after it is done. Each goes by its approval: a model's ids repeat in other conversations. The
mailbox never decides whether a call may run.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from agent_kernel.notebook.execution.interrupts import own_signal
from agent_kernel.protocol.kernel import CallPlace
from agent_kernel.protocol.views import OutputView
from agent_kernel.tools.executor import ApprovedCall, Outcome

KEPT_CALLS = 64
"""Finished calls whose outputs and outcome can be collected again: an answer may be lost on its way."""
UNTOLD_CALLS = 1_000
"""Finished calls whose outcome nobody has heard. Many calls may end while the one that asks is busy."""

WITHDRAWN = Outcome("cancelled", "The call was cancelled before it started. Nothing ran.")


class Observer(Protocol):
    """Told of a call's outputs, in order, and of its end. Called in any thread; must be quick."""

    def output(self, approval_id: str, index: int, output: OutputView) -> None: ...

    def done(self, approval_id: str, outcome: Outcome) -> bool:
        """Whether it has taken the outcome. If not, the outcome is kept until it is collected."""
        ...


@dataclass(slots=True)
class Entry:
    """One call in the mailbox. Its fields change only under the mailbox's lock."""

    call: ApprovedCall
    run_id: str | None
    observer: Observer
    needs_await: bool
    place: CallPlace = "deposited"
    outputs: list[OutputView] = field(default_factory=list)
    outcome: Outcome | None = None
    told: bool = False
    """Whether somebody has heard the outcome."""
    stop: Callable[[], None] | None = None
    """Ends a call that runs beside others, where a signal would hit them all. Called under the lock."""
    stopped: bool = False
    """Whether somebody has pressed Stop or Cancel while it ran, or its time was up."""
    spared: bool = False
    """Whether the kernel's interrupt has hit it: the stop of its run, which follows, is not a second one. Set by the
    signal's handler, without the lock."""


@dataclass(frozen=True, slots=True)
class Collected:
    state: CallPlace
    outputs: tuple[OutputView, ...]
    outcome: Outcome | None


class Mailbox:
    """Thread-safe. `on_claimable` callbacks are how waiting main threads learn that there is something to claim."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._arrival = threading.Condition(self._lock)
        self._entries: OrderedDict[str, Entry] = OrderedDict()
        self._executing: list[str] = []
        self._forgotten: set[str] = set()
        self._given_up: set[str] = set()
        self._listeners: set[Callable[[], None]] = set()

    def deposit(
        self,
        call: ApprovedCall,
        observer: Observer,
        run_id: str | None = None,
        needs_await: bool = False,
        *,
        withdrawn: bool = False,
    ) -> bool:
        """Lay a call down for the main thread, or one that is over at once. A second deposit of a known call changes
        nothing.

        True where `expect` has given it up: whoever was to claim it has gone.
        """
        with self._lock:
            if not self._knows(call.approval_id):
                self._entries[call.approval_id] = Entry(call, run_id, observer, needs_await)
                if withdrawn:
                    self.withdraw(call.approval_id)
                self._forget_old()
                self._arrival.notify_all()
                self._announce()
            return call.approval_id in self._given_up

    def expect(self, approval_id: str, seconds: float) -> Entry | None:
        """Wait for the deposit of a call that may be on its way; `None` where it does not come, or is long done."""
        with self._lock:
            try:
                self._arrival.wait_for(lambda: self._knows(approval_id), seconds)
            finally:  # an interrupt of the kernel's ends the wait as well
                if not self._knows(approval_id):
                    self._given_up.add(approval_id)
            return self._entries.get(approval_id)

    def claim(self, approval_id: str | None = None, inside: str | None = None) -> Entry | None:
        """Take a deposited call (the oldest one, where no id is given) to run it now; `None` if there is none.

        One call runs at a time; only the code of the call that runs, `inside`, may claim another.
        """
        with self._lock:
            if (self._executing[-1] if self._executing else None) != inside:
                return None
            for entry in self._entries.values():
                if entry.place == "deposited" and approval_id in (None, entry.call.approval_id):
                    entry.place = "running"
                    self._executing.append(entry.call.approval_id)
                    return entry
            return None

    def claim_beside(self, fits: Callable[[Entry], bool]) -> Entry | None:
        """The same of a deposited call that may run beside those that run, which its caller knows."""
        with self._lock:
            for entry in self._entries.values():
                if entry.place == "deposited" and fits(entry):
                    entry.place = "running"
                    self._executing.append(entry.call.approval_id)
                    return entry
            return None

    def output(self, entry: Entry, output: OutputView) -> None:
        with self._lock:
            entry.outputs.append(output)
            index = len(entry.outputs) - 1
            entry.observer.output(entry.call.approval_id, index, output)

    def rest(self, entry: Entry) -> None:
        """The call's code has ended: from here on an interrupt no longer reaches it."""
        with self._lock:
            self._executing.remove(entry.call.approval_id)

    def finish(self, entry: Entry, outcome: Outcome) -> None:
        with self._lock:
            self._end(entry, outcome)
            self._announce()

    def collect(self, approval_id: str, first_index: int = 0) -> Collected:
        """The outputs from `first_index` on, and the outcome if there is one."""
        with self._lock:
            entry = self._entries.get(approval_id)
            if entry is None:
                return Collected("unknown", (), None)
            entry.told = entry.outcome is not None
            return Collected(entry.place, tuple(entry.outputs[first_index:]), entry.outcome)

    def place(self, approval_id: str) -> CallPlace:
        with self._lock:
            entry = self._entries.get(approval_id)
            return entry.place if entry is not None else "unknown"

    def interrupt(self, approval_id: str) -> bool:
        """Interrupt this call if it is the one that runs, or withdraw it if it waits. True if anything was done."""
        with self._lock:
            entry = self._entries.get(approval_id)
            beside = entry is not None and entry.stop is not None and approval_id in self._executing
            if entry is not None and (beside or (self._executing and self._executing[-1] == approval_id)):
                entry.stopped = True
                # Under the lock: the call can't end, and another begin, between the check and the signal.
                if entry.spared:
                    entry.spared = False
                elif beside and entry.stop is not None:
                    entry.stop()
                else:
                    own_signal.send()
                return True
            return self.withdraw(approval_id)

    def withdraw(self, approval_id: str) -> bool:
        with self._lock:
            entry = self._entries.get(approval_id)
            if entry is None or entry.place != "deposited":
                return False
            self._end(entry, WITHDRAWN)
            return True

    @contextmanager
    def listening(self, listener: Callable[[], None]) -> Iterator[None]:
        """Have `listener` called, in any thread, whenever something may have become claimable."""
        with self._lock:
            self._listeners.add(listener)
        try:
            yield
        finally:
            with self._lock:
                self._listeners.discard(listener)

    def _knows(self, approval_id: str) -> bool:
        return approval_id in self._entries or approval_id in self._forgotten

    def _end(self, entry: Entry, outcome: Outcome) -> None:
        entry.place, entry.outcome = "done", outcome
        entry.told = entry.observer.done(entry.call.approval_id, outcome)

    def _announce(self) -> None:
        for listener in tuple(self._listeners):
            listener()

    def _forget_old(self) -> None:
        done = [(key, entry.told) for key, entry in self._entries.items() if entry.place == "done"]
        told, untold = ([key for key, was_told in done if was_told is wanted] for wanted in (True, False))
        for key in [*told[: max(0, len(told) - KEPT_CALLS)], *untold[: max(0, len(untold) - UNTOLD_CALLS)]]:
            del self._entries[key]
            # The id stays known, so that a late repeat of its deposit can't run it again.
            self._forgotten.add(key)
