"""Passes approved calls to the main thread. Claiming a call is atomic: none runs twice.

A call is deposited by another thread (the control thread, or the embedded runtime's), claimed by the main thread, and
can be read for a while after it is done. Its id is that of its approval, because a model's ids repeat in other
conversations. The mailbox never decides whether a call may run.
"""

import _thread
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from agent_kernel.notebook.execution.interrupts import own_signal
from agent_kernel.notebook.execution.listeners import Listenable
from agent_kernel.protocol.vocabulary import CallPhase

if TYPE_CHECKING:
    from agent_kernel.protocol.calls import ApprovedCall, Outcome
    from agent_kernel.protocol.kernel import Collected
    from agent_kernel.protocol.views import OutputView

KEPT_CALLS = 64
"""Finished calls that can be collected again, because a reply may be lost."""
UNCOLLECTED_CALLS = 1_000
"""Finished calls that were not collected yet. Many calls may end while the server is busy."""

AGAIN_SECONDS = (0.1, 0.2, 0.4, 0.8, 1.6)
"""Pauses before an interrupt that a call has not seen is sent again."""

WITHDRAWN = "The call was cancelled before it started. Nothing ran."


class Observer(Protocol):
    """Receives a call's outputs, in order, and its outcome. Called in any thread; must be quick."""

    def output(self, approval_id: str, index: int, output: "OutputView") -> None: ...

    def done(self, approval_id: str, outcome: "Outcome", outputs: int) -> bool:
        """Whether the observer has taken the outcome, which follows that many outputs. If not, it is kept until it is
        collected, or known to be received."""
        ...


@dataclass(slots=True)
class Entry:
    """One call in the mailbox. Its fields change only under the mailbox's lock."""

    call: "ApprovedCall"
    run_id: str | None
    observer: Observer
    phase: CallPhase = "deposited"
    outputs: "list[OutputView]" = field(default_factory=list)
    outcome: "Outcome | None" = None
    collected: bool = False
    """Whether the outcome was taken or collected."""
    stop: Callable[[], None] | None = None
    """Interrupts a call that runs beside others, where a signal would hit them all. Called under the lock."""
    stopped: bool = False
    """Whether the runtime has interrupted it: after Stop or Cancel, or when its time was up."""
    skip_interrupt: bool = False
    """Whether the runtime's next interrupt is ignored, because it follows from an interrupt of the kernel that the call
    has had already. Set by the signal's handler, without the lock."""


class Mailbox(Listenable):
    """Thread-safe. A waiting main thread learns by `listening` that there is a call to claim."""

    def __init__(self) -> None:
        super().__init__(threading.RLock())
        self._entries: OrderedDict[str, Entry] = OrderedDict()
        self._executing: list[str] = []
        self._forgotten: set[str] = set()

    def deposit(
        self,
        call: "ApprovedCall",
        observer: Observer,
        run_id: str | None = None,
        *,
        withdrawn: bool = False,
    ) -> None:
        """Deposit a call for the main thread; with `withdrawn`, one that ends at once. A second deposit of a known call
        changes nothing."""
        with self._lock:
            if self._knows(call.approval_id):
                return
            self._entries[call.approval_id] = Entry(call, run_id, observer)
            if withdrawn:
                self.withdraw(call.approval_id)
            self._forget_old()
            self._notify()

    def claim(self, approval_id: str | None = None, inside: str | None = None) -> Entry | None:
        """Claim a deposited call (without an id, the oldest) to run it now; `None` if there is none.

        One call runs at a time. `inside` is the approval id of the call whose code claims: only the call that runs
        may have another one run inside it.
        """
        with self._lock:
            if (self._executing[-1] if self._executing else None) != inside:
                return None
            return self.claim_beside(lambda entry: approval_id in (None, entry.call.approval_id))

    def claim_beside(self, fits: Callable[[Entry], bool]) -> Entry | None:
        """Claim the oldest deposited call that `fits`, to run it beside those that run already."""
        with self._lock:
            for entry in self._entries.values():
                if entry.phase == "deposited" and fits(entry):
                    entry.phase = "running"
                    self._executing.append(entry.call.approval_id)
                    return entry
            return None

    def output(self, entry: Entry, output: "OutputView") -> None:
        with self._lock:
            entry.outputs.append(output)
            index = len(entry.outputs) - 1
            entry.observer.output(entry.call.approval_id, index, output)

    def code_ended(self, entry: Entry) -> None:
        """The call's code has ended: `interrupt` no longer reaches it."""
        with self._lock:
            self._executing.remove(entry.call.approval_id)

    def finish(self, entry: Entry, outcome: "Outcome") -> None:
        with self._lock:
            self._end(entry, outcome)
            self._notify()

    def collect(self, approval_id: str, first_index: int = 0) -> "Collected":
        """The outputs from `first_index` on, and the outcome if there is one."""
        from agent_kernel.protocol.kernel import Collected  # with pydantic, which a first prompt has no time for

        with self._lock:
            entry = self._entries.get(approval_id)
            if entry is None:
                return Collected(state="unknown")
            entry.collected = entry.outcome is not None
            outputs = tuple(entry.outputs[first_index:])
            return Collected(state=entry.phase, outputs=outputs, outcome=entry.outcome)

    def note_received(self, approval_ids: Iterable[str]) -> None:
        """The outcomes of these calls have arrived where they were sent."""
        with self._lock:
            for approval_id in approval_ids:
                if (entry := self._entries.get(approval_id)) is not None:
                    entry.collected = entry.outcome is not None

    def note_run_ended(self, run_id: str) -> None:
        """All outcomes of this run's calls have arrived."""
        with self._lock:
            self.note_received([key for key, entry in self._entries.items() if entry.run_id == run_id])

    def phase(self, approval_id: str) -> CallPhase:
        with self._lock:
            entry = self._entries.get(approval_id)
            return entry.phase if entry is not None else "unknown"

    def interrupt(self, approval_id: str) -> bool:
        """Interrupt this call if it runs, or withdraw it if it was not claimed yet. Whether anything was done."""
        with self._lock:
            entry = self._entries.get(approval_id)
            beside = entry is not None and entry.stop is not None and approval_id in self._executing
            if entry is not None and (beside or (self._executing and self._executing[-1] == approval_id)):
                entry.stopped = True
                # Under the lock: the call can't end, and another begin, between the check and the signal.
                if entry.skip_interrupt:
                    entry.skip_interrupt = False
                    return True
                if beside and entry.stop is not None:
                    entry.stop()
                else:
                    own_signal.send()
                # Not `Thread.start`, which waits until the new thread has had the interpreter.
                _thread.start_new_thread(self._interrupt_again, (entry,))
                return True
            return self.withdraw(approval_id)

    def _interrupt_again(self, entry: Entry) -> None:
        """Send the signal again as long as the call has not seen it: Python hands its lock on before it blocks, in
        `time.sleep` for example, and sees a signal that comes in between only when it blocks no longer. On a busy
        machine, that is where the thread that interrupts gets the lock."""
        for pause in AGAIN_SECONDS:
            time.sleep(pause)
            with self._lock:
                if entry.call.approval_id not in self._executing or not own_signal.is_unseen:
                    return
                own_signal.send()

    def withdraw(self, approval_id: str) -> bool:
        """End a call that was not claimed yet. Whether there was one."""
        from agent_kernel.protocol.calls import Outcome  # which a first prompt has no use for

        with self._lock:
            entry = self._entries.get(approval_id)
            if entry is None or entry.phase != "deposited":
                return False
            self._end(entry, Outcome("cancelled", WITHDRAWN))
            return True

    def _knows(self, approval_id: str) -> bool:
        return approval_id in self._entries or approval_id in self._forgotten

    def _end(self, entry: Entry, outcome: "Outcome") -> None:
        entry.phase, entry.outcome = "done", outcome
        entry.collected = entry.observer.done(entry.call.approval_id, outcome, len(entry.outputs))

    def _forget_old(self) -> None:
        done = [(key, entry.collected) for key, entry in self._entries.items() if entry.phase == "done"]
        old = [key for key, collected in done if collected]
        new = [key for key, collected in done if not collected]
        for key in [*old[: max(0, len(old) - KEPT_CALLS)], *new[: max(0, len(new) - UNCOLLECTED_CALLS)]]:
            del self._entries[key]
            # The id stays known, so that a late repeat of its deposit can't run it again.
            self._forgotten.add(key)
