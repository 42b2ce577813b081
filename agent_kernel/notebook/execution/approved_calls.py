"""`Calls`: the approved calls of this kernel. Claiming a call is atomic: none runs twice.

A call is deposited by another thread, or by the message that runs it, and claimed by the main thread. Its id is that of
its approval, because a model's ids repeat in other conversations. Nothing here decides whether a call may run.
"""

import _thread
import contextlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from agent_kernel.notebook.execution.call_interrupts import own_signal
from agent_kernel.protocol.calls import ApprovedCall
from agent_kernel.protocol.kernel import CallEnd, Collected, OfferCall
from agent_kernel.protocol.vocabulary import CallPhase

KEPT_CALLS = 64
"""Ends that can be collected again, because a reply may be lost."""

AGAIN_SECONDS = (0.1, 0.2, 0.4, 0.8, 1.6)
"""Pauses before an interrupt that a call has not seen is sent again."""

WITHDRAWN = "The call was cancelled before it started. Nothing ran."


class Listenable:
    """A base for objects on which threads wait for something to happen."""

    def __init__(self, lock: "threading.Lock | threading.RLock") -> None:
        """`lock` is held while listeners come and go, and by callers of `_notify`."""
        self._lock = lock
        self._listeners: set[Callable[[], object]] = set()

    @contextlib.contextmanager
    def listening(self, listener: Callable[[], object]) -> Iterator[None]:
        """Have `listener` called, in any thread, whenever there may be something new."""
        with self._lock:
            self._listeners.add(listener)
        try:
            yield
        finally:
            with self._lock:
                self._listeners.discard(listener)

    def _notify(self) -> None:
        for listener in tuple(self._listeners):
            listener()


@dataclass(slots=True)
class Entry:
    """One call. Its fields change only under the lock."""

    call: ApprovedCall
    run_id: str | None
    message_id: str
    phase: CallPhase = "deposited"
    end: CallEnd | None = None
    stopped: bool = False
    """Whether the runtime has interrupted it: after Stop or Cancel, or when its time was up."""
    skip_interrupt: bool = False
    """Whether the runtime's next interrupt is ignored, because it follows from an interrupt of the kernel that the call
    has had already. Set by the signal's handler, without the lock."""


class Calls(Listenable):
    """Thread-safe. A waiting main thread learns by `listening` that there is a call to claim."""

    def __init__(self) -> None:
        super().__init__(threading.RLock())
        self._entries: OrderedDict[str, Entry] = OrderedDict()
        self._executing: list[str] = []
        self._seen: set[str] = set()
        """The ids of all calls, for as long as the process lives: a repeat never runs."""
        self.on_ended: Callable[[Entry], None] = lambda _: None
        """Called in any thread when a call has ended; must be quick."""

    def deposit(self, request: OfferCall, *, withdrawn: bool = False) -> None:
        """Deposit a call for the main thread; with `withdrawn`, one that ends at once. A repeat changes nothing but the
        message that the call is to be run for."""
        approval_id = request.call.approval_id
        with self._lock:
            if approval_id in self._seen:
                entry = self._entries.get(approval_id)
                if entry is not None and entry.phase == "deposited" and request.message_id:
                    entry.message_id = request.message_id
                return
            self._seen.add(approval_id)
            self._entries[approval_id] = Entry(request.call, request.run_id, request.message_id)
            if withdrawn:
                self.withdraw(approval_id)
            self._notify()

    def claim(self, approval_id: str | None = None, inside: str | None = None) -> Entry | None:
        """Claim a deposited call (without an id, the oldest) to run it now; `None` if there is none.

        One call runs at a time. `inside` is the approval id of the call whose code claims: only the call that runs
        may have another one run inside it.
        """
        with self._lock:
            if (self._executing[-1] if self._executing else None) != inside:
                return None
            for entry in self._entries.values():
                if entry.phase == "deposited" and approval_id in (None, entry.call.approval_id):
                    entry.phase = "running"
                    self._executing.append(entry.call.approval_id)
                    return entry
            return None

    def code_ended(self, entry: Entry) -> None:
        """The call's code has ended: `interrupt` no longer reaches it."""
        with self._lock:
            self._executing.remove(entry.call.approval_id)

    def finish(self, entry: Entry, end: CallEnd) -> None:
        with self._lock:
            self._end(entry, end)
            self._notify()

    def collect(self, approval_id: str) -> Collected:
        with self._lock:
            entry = self._entries.get(approval_id)
            return Collected(state="unknown") if entry is None else Collected(state=entry.phase, end=entry.end)

    def interrupt(self, approval_id: str) -> bool:
        """Interrupt this call if it runs, or withdraw it if it was not claimed yet. Whether anything was done."""
        with self._lock:
            entry = self._entries.get(approval_id)
            if entry is not None and self._executing and self._executing[-1] == approval_id:
                entry.stopped = True
                # Under the lock: the call can't end, and another begin, between the check and the signal.
                if entry.skip_interrupt:
                    entry.skip_interrupt = False
                    return True
                own_signal.send()
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
        with self._lock:
            entry = self._entries.get(approval_id)
            if entry is None or entry.phase != "deposited":
                return False
            self._end(entry, CallEnd(status="cancelled", text=WITHDRAWN, is_whole=True))
            return True

    def _end(self, entry: Entry, end: CallEnd) -> None:
        entry.phase, entry.end = "done", end
        self.on_ended(entry)
        done = [key for key, one in self._entries.items() if one.phase == "done"]
        for key in done[: max(0, len(done) - KEPT_CALLS)]:
            del self._entries[key]
