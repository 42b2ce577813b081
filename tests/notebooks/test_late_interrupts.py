"""Interrupts that come when a call's code has ended and the kernel still has its handler."""

import signal

from agent_kernel.notebook.execution.call_interrupts import InterruptGate, own_signal


def test_an_interrupt_of_the_user_after_a_call_has_ended_is_not_lost_and_not_raised() -> None:
    heard: list[str] = []
    with (gate := InterruptGate()).installed():
        gate.end(lambda: heard.append("interrupt"))
        signal.raise_signal(signal.SIGINT)
    assert (heard, gate.interrupted, gate.by_user) == (["interrupt"], False, False)


def test_a_signal_of_the_kernels_own_after_a_call_has_ended_is_dropped() -> None:
    heard: list[str] = []
    with (gate := InterruptGate()).installed():
        gate.end(lambda: heard.append("interrupt"))
        own_signal.send()
    assert (heard, gate.interrupted) == ([], False)
