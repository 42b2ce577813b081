"""What a cell asks the server that runs this kernel's agents, and waits for."""

import threading
import uuid
from collections.abc import Callable
from typing import Any

from agent_kernel.errors import ServerSilent

ASK_SECONDS = 1.0
ASK_TRIES = 5


class Questions:
    """Those of one kernel that are not answered yet. The server answers in the control thread."""

    def __init__(self) -> None:
        self._open: dict[str, _Question] = {}

    def ask(self, send: Callable[..., None], topic: str, tries: int = ASK_TRIES, **fields: Any) -> dict[str, Any]:
        """Ask, each second until there is an answer: a server that has just started hears late.

        Raises `ServerSilent` where none comes, or only a refusal.
        """
        question_id, question = f"ask_{uuid.uuid4().hex}", _Question()
        self._open[question_id] = question
        try:
            for _ in range(tries):
                send("ask", question_id=question_id, topic=topic, **fields)
                if question.answered.wait(ASK_SECONDS):
                    return question.result()
        finally:
            del self._open[question_id]
        raise ServerSilent(
            f"The Jupyter server did not answer within {ASK_SECONDS * tries:g} s. Check that its extension is on "
            "(`jupyter server extension list` shows agent_kernel_server), then run the cell again."
        )

    def answer(self, question_id: str, answer: dict[str, Any] | None, refusal: str | None) -> None:
        """What the server says; nothing where nobody waits for it any more."""
        question = self._open.get(question_id)
        if question is not None:
            question.answer, question.refusal = answer, refusal
            question.answered.set()


class _Question:
    def __init__(self) -> None:
        self.answered = threading.Event()
        self.answer: dict[str, Any] | None = None
        self.refusal: str | None = None

    def result(self) -> dict[str, Any]:
        if self.answer is None:
            raise ServerSilent(self.refusal or "The Jupyter server gave no answer.")
        return self.answer
