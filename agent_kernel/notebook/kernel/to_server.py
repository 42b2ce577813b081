"""What this kernel says to its server: events, and questions, which the server's requests answer."""

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from agent_kernel.errors import ServerSilent
from agent_kernel.protocol.kernel import KernelMessage
from agent_kernel.protocol.kernel_events import EVENT_TOPIC, EVENT_TYPE, AnswerT, Question, RunAnnounced

ANNOUNCE_SECONDS = 1.0
ANNOUNCE_TRIES = 15
ASK_SECONDS = 1.0
ASK_TRIES = 5


class ServerEvents:
    """Sends events to the server, from any thread: as IOPub messages under a topic that JupyterLab ignores."""

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel

    def send(self, event: KernelMessage) -> None:
        content = event.model_dump(mode="json")
        self._kernel.session.send(self._kernel.iopub_socket, EVENT_TYPE, content, ident=EVENT_TOPIC)

    def announce(self, run: RunAnnounced, acknowledged: threading.Event, on_timeout: Callable[[], None]) -> None:
        """Announce a new run each second until `acknowledged` is set; call `on_timeout` if it never is."""

        def repeat() -> None:
            for _ in range(ANNOUNCE_TRIES):
                self.send(run)
                if acknowledged.wait(ANNOUNCE_SECONDS):
                    return
            on_timeout()

        threading.Thread(target=repeat, name="agent-kernel-announce", daemon=True).start()


class Questions:
    """The open questions of one kernel. The server's answers come in the control thread."""

    def __init__(self) -> None:
        self._open: dict[str, Future[dict[str, Any]]] = {}

    def ask(
        self, send: Callable[[KernelMessage], None], question: Question[AnswerT], tries: int = ASK_TRIES
    ) -> AnswerT:
        """Send a question each second until it is answered: a server that has just started may miss the first ones.

        Raises `ServerSilent` after `tries` seconds without an answer, or if the server refuses to give one.
        """
        answer = self._open[question.question_id] = Future[dict[str, Any]]()
        try:
            for _ in range(tries):
                send(question)
                with contextlib.suppress(TimeoutError):
                    return question.answer_type().model_validate(answer.result(ASK_SECONDS))
        finally:
            del self._open[question.question_id]
        raise ServerSilent(
            f"The Jupyter server did not answer within {ASK_SECONDS * tries:g} s. Check that its extension is on "
            "(`jupyter server extension list` shows agent_kernel_server), then run the cell again."
        )

    def answer(self, question_id: str, answer: dict[str, Any] | None, refusal: str | None) -> None:
        """The server's answer, or its refusal. Ignored where the question is no longer open."""
        waits = self._open.get(question_id)
        if waits is None or waits.done():
            return
        if answer is not None:
            waits.set_result(answer)
        else:
            waits.set_exception(ServerSilent(refusal or "The Jupyter server gave no answer."))
