"""A page without a browser: it runs cells through a Jupyter server's own WebSocket, and decides over HTTP."""

import contextlib
import json
import time
import urllib.error
import uuid
from collections.abc import Callable
from typing import Any, Self

import websocket

from tests.e2e.lab import LabServer
from tests.programs import wait_until

SECONDS = 60.0
ASK_AGAIN_SECONDS = 2.0
Message = dict[str, Any]


def connect(server: LabServer, path: str) -> websocket.WebSocket:
    url = f"{server.url.replace('http', 'ws', 1)}{path}"
    return websocket.create_connection(url, timeout=SECONDS, header=[f"Authorization: token {server.token}"])


class Cells:
    """The cells of one notebook, in the kernel of its session."""

    def __init__(self, server: LabServer, kernel_id: str, name: str) -> None:
        self.server = server
        self._name = name
        self.kernel_id = kernel_id
        self.session = uuid.uuid4().hex
        self.received: list[Message] = []
        self._socket = self._connect()

    @classmethod
    def of_notebook(cls, server: LabServer, name: str) -> Self:
        """Open a session, as a page does for a notebook."""
        server.write_notebook(name, [])
        body = {"path": name, "name": name, "type": "notebook", "kernel": {"name": "python3"}}
        return cls(server, server.api("POST", "api/sessions", body)["kernel"]["id"], name)

    def _connect(self) -> websocket.WebSocket:
        return connect(self.server, f"api/kernels/{self.kernel_id}/channels?session_id={self.session}")

    def reconnect(self) -> None:
        """Connect again, as a page that is loaded again, and wait until the kernel answers: a gateway's line comes back
        later than the server's. As another session: the gateway notices late that the old line is cut, and until then
        two connections of one session would have the same address at the kernel."""
        self._socket.close()
        self.session = uuid.uuid4().hex
        self._socket = self._connect()
        self._socket.settimeout(ASK_AGAIN_SECONDS)
        wait_until(self._answers, "the kernel to answer again", SECONDS)
        self._socket.settimeout(SECONDS)

    def _answers(self) -> bool:
        asked = self._ask("kernel_info_request", {})
        with contextlib.suppress(websocket.WebSocketTimeoutException):
            self.receive_until(lambda: any(_is_idle(message) for message in self._of(asked)))
            return True
        return False

    def close(self) -> None:
        self._socket.close()
        # A test may have done away with the kernel.
        with contextlib.suppress(urllib.error.HTTPError):
            self.server.api("DELETE", f"api/kernels/{self.kernel_id}")

    def start(self, code: str) -> str:
        """Send a cell; the id by which its outputs are known."""
        content = {"code": code, "silent": False, "store_history": True, "user_expressions": {}}
        return self._ask("execute_request", {**content, "allow_stdin": True, "stop_on_error": True})

    def _ask(self, kind: str, content: Message) -> str:
        message_id = uuid.uuid4().hex
        header = {"msg_id": message_id, "msg_type": kind, "session": self.session}
        header |= {"username": "page", "version": "5.3", "date": "2026-01-01T00:00:00Z"}
        parts = {"header": header, "parent_header": {}, "metadata": {}, "content": content, "buffers": []}
        self._socket.send(json.dumps({"channel": "shell", **parts}))
        return message_id

    def run(self, code: str) -> list[Message]:
        """Run a cell to its end; its outputs."""
        return self.ended(self.start(code))

    def ended(self, cell: str) -> list[Message]:
        """The outputs of a cell, once it has ended."""
        self.receive_until(lambda: any(_is_idle(message) for message in self._of(cell)))
        outputs = [message for message in self._of(cell) if message["channel"] == "iopub"]
        return [message for message in outputs if message["msg_type"] not in ("status", "execute_input")]

    def text(self, code: str) -> str:
        """What a cell prints."""
        outputs = self.run(code)
        assert "error" not in [message["msg_type"] for message in outputs], outputs
        return "".join(message["content"]["text"] for message in outputs if message["msg_type"] == "stream")

    def shown(self, cell: str) -> list[Message]:
        """The displays of a cell so far, and what took their place."""
        return [m["content"] for m in self._of(cell) if m["msg_type"] in ("display_data", "update_display_data")]

    def _of(self, cell: str) -> list[Message]:
        return [message for message in self.received if message["parent_header"].get("msg_id") == cell]

    def receive_until(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + SECONDS
        while not condition():
            assert time.monotonic() < deadline, [message["msg_type"] for message in self.received][-20:]
            frame = self._socket.recv()
            if isinstance(frame, str) and frame:
                self.received.append(json.loads(frame))

    # what the person does

    def ask(self, prompt: str) -> Message:
        """Run a cell with this prompt, in whose run a call waits: the call."""
        self.run(f"%%agent\n{prompt}")
        return self.next_approval()

    def waiting(self) -> list[Message]:
        """The calls of this kernel that wait for a decision."""
        found: list[Message] = self.server.api("GET", "agent-kernel/api/approvals?state=awaiting_approval")
        return [one for one in found if one["kernel_id"] == self.kernel_id]

    def next_approval(self) -> Message:
        """The first of them."""
        return wait_until(self.waiting, "a call that waits for an approval", SECONDS)[0]

    def approve(self, call: Message) -> None:
        self.server.api("POST", f"agent-kernel/api/approvals/{call['approval_id']}", {"approved": True})

    def stop(self, conversation_id: str) -> None:
        """Press Stop."""
        self.send(conversation_id, type="cancel", run_id=self.conversation(conversation_id)["runs"][-1]["run_id"])

    def send(self, conversation_id: str, **command: str) -> None:
        """Send a command on the conversation's own channel."""
        channel = connect(self.server, f"agent-kernel/api/conversations/{conversation_id}/channel")
        channel.recv()  # the session: a channel that closes before it is open takes its commands along
        channel.send(json.dumps(command))
        channel.close(timeout=60)

    def conversation(self, conversation_id: str) -> Message:
        view: Message = self.server.api("GET", f"agent-kernel/api/conversations/{conversation_id}")
        return view

    def call(self, conversation_id: str, state: str) -> Message:
        """The conversation's last call, once it is in this state."""

        def look() -> Message | None:
            calls = self.conversation(conversation_id)["tool_calls"]
            return calls[-1] if calls and calls[-1]["state"] == state else None

        return wait_until(look, f"a call in the state {state!r}", SECONDS)

    def run_ended(self, conversation_id: str) -> Message:
        """The conversation's last run, once it has ended."""

        def look() -> Message | None:
            runs = self.conversation(conversation_id)["runs"]
            return runs[-1] if runs and runs[-1]["status"] not in ("queued", "running") else None

        return wait_until(look, "the run to end", SECONDS)


def _is_idle(message: Message) -> bool:
    return bool(message["msg_type"] == "status" and message["content"]["execution_state"] == "idle")
