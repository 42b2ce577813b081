"""The model of the browser tests: a fake server whose turns each test writes."""

import threading
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from agent_kernel.models.base import ModelTurn
from agent_kernel.testing import FakeOpenAI, call, calls
from agent_kernel.testing.wire.reply import Reply, failure
from tests.e2e.lab import NotebookPage

GATE_SECONDS = 300
"""As long as a test may take: no gate opens by itself before that."""


@dataclass(slots=True)
class Gate:
    """A turn that the model says when the test lets it, so that a card can be looked at before the run ends."""

    turn: ModelTurn
    opened: threading.Event = field(default_factory=threading.Event)

    def open(self) -> None:
        self.opened.set()


class WrittenModel:
    def __init__(self) -> None:
        self._turns: deque[ModelTurn | Gate | Reply] = deque()
        self._gates: list[Gate] = []
        self._unexpected: list[dict[str, Any]] = []
        self._first = 0
        self.server = FakeOpenAI([self._answer], repeat=True)

    def says(self, *turns: ModelTurn | Gate | Reply) -> None:
        self._turns.extend(turns)
        self._gates.extend(turn for turn in turns if isinstance(turn, Gate))

    def begin(self) -> None:
        """Forget what an earlier test left."""
        self._turns.clear()
        self._unexpected.clear()
        self._first = len(self.server.requests)

    def open_gates(self) -> None:
        """Those that a failed test left closed: the server answers nobody else meanwhile."""
        for gate in self._gates:
            gate.open()
        self._gates.clear()

    def assert_consumed(self) -> None:
        assert not self._unexpected, f"The model was asked for more turns than were written: {self._unexpected}"
        assert not self._turns, f"The model was never asked for: {list(self._turns)}"

    def requests(self) -> list[list[dict[str, Any]]]:
        """The messages of each request of this test."""
        return [request.body["messages"] for request in self.server.requests[self._first :]]

    def tool_results(self) -> list[str]:
        """The results of the calls as the model got them, in order: the tool messages of the last request."""
        return [message["content"] for message in self.requests()[-1] if message["role"] == "tool"]

    def _answer(self, body: dict[str, Any]) -> ModelTurn | Reply:
        if not self._turns:
            self._unexpected.append(body["messages"][-1])
            return failure(400, "no turn was written for this request")
        turn = self._turns.popleft()
        if isinstance(turn, Gate):
            turn.opened.wait(GATE_SECONDS)
            return turn.turn
        return turn


def run_calls(notebook: NotebookPage, model: WrittenModel, end: Gate, *codes: str) -> None:
    """Run the second cell, whose run makes these codes its calls, all allowed; `end` are its last words."""
    many = [call("run_python", call_id=f"c{number}", code=code) for number, code in enumerate(codes)]
    model.says(calls(*many), end)
    notebook.run_through(1)
    for number in range(len(codes)):
        notebook.wait_for_state("success", card=number)
