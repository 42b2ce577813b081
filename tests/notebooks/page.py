"""A page without a browser: it talks to a run's widget as the front end does."""

import json
import queue
import time
from collections.abc import Callable
from typing import Any

from tests.notebooks.kernel import SECONDS, TestKernel

ASK_AGAIN_SECONDS = 5.0
"""Later than the front end does: an answer that is only late must not come twice."""


class Page:
    """Sees the last widget of a run that the kernel shows. Commands go through a subshell, as JupyterLab's do."""

    def __init__(self, kernel: TestKernel, prompt: str | None = None) -> None:
        """`prompt`: only of the run that was asked this."""
        self.kernel = kernel
        self.comm: str | None = None
        self.sessions: list[dict[str, Any]] = []
        """The `session` events that came, and `frames` is all else."""
        self.frames: list[dict[str, Any]] = []
        self.batches: list[int] = []
        """How many frames each message brought."""
        self.records: list[dict[str, Any]] = []
        self.state: dict[str, Any] = {}
        """What the kernel has told the front end of the widget."""
        self._prompt = prompt
        self._seen: set[int] = set()
        self._asked = 0
        self._subshell = kernel.subshell()
        kernel.listeners.append(self._hear)

    def send(self, **command: Any) -> None:
        assert self.comm is not None
        self.send_to(self.comm, {"method": "custom", "content": {"command": command}})

    def send_to(self, comm: str, data: dict[str, Any]) -> None:
        """What the front end sends to any widget."""
        client = self.kernel.client
        message = client.session.msg("comm_msg", {"comm_id": comm, "data": data})
        if self._subshell is not None:
            message["header"]["subshell_id"] = self._subshell
        client.shell_channel.send(message)

    def open(self) -> None:
        """Wait for the widget and ask for the run's events, again and again until the kernel answers."""
        self.until(lambda: self.comm is not None)
        asked = 0.0

        def answered() -> bool:
            nonlocal asked
            if not self.batches and time.monotonic() - asked > ASK_AGAIN_SECONDS:
                asked = time.monotonic()
                self._asked += 1
                self.send(type="resume", last_seq=0)
            return bool(self.batches)

        self.until(answered)

    def resume(self, last_seq: int) -> None:
        """Ask for what came after this again, which then counts as new."""
        self._seen.clear()
        self.send(type="resume", last_seq=last_seq)

    def event(self, kind: str) -> dict[str, Any]:
        """Wait for the first event of this kind."""
        self.until(lambda: any(frame["type"] == kind for frame in self.frames))
        return next(frame for frame in self.frames if frame["type"] == kind)

    def record(self) -> dict[str, Any]:
        self.until(lambda: bool(self.records))
        return self.records[0]

    def until(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + SECONDS
        while not condition():
            assert time.monotonic() < deadline, [frame["type"] for frame in self.frames]
            try:
                message = self.kernel.client.get_iopub_msg(timeout=0.1)
            except queue.Empty:
                continue
            self.kernel.published(message)

    def _is_new(self, frame: dict[str, Any]) -> bool:
        """Whether a frame did not come before: who asks twice is answered twice."""
        if frame["type"] in ("error", "ack", "pong"):  # these have the number of the last event
            return True
        seen = self._asked > 1 and frame.get("seq") in self._seen
        if frame.get("seq") is not None:
            self._seen.add(frame["seq"])
        return not seen

    def _hear(self, message: dict[str, Any]) -> None:
        content = message["content"]
        if message["msg_type"] == "comm_open" and "_esm" in (state := content["data"].get("state", {})):
            if self._prompt in (None, state["prompt"]):
                self.comm, self.state = content["comm_id"], state
        elif message["msg_type"] == "comm_msg" and content["comm_id"] == self.comm:
            if content["data"].get("method") == "update":
                self.state.update(content["data"]["state"])
                return
            frames = [json.loads(frame) for frame in content["data"].get("content", {}).get("frames", [])]
            if not self.batches:
                assert frames[0]["type"] == "session"
            self.sessions += [frame for frame in frames if frame["type"] == "session"]
            self.frames += [frame for frame in frames if frame["type"] != "session" and self._is_new(frame)]
            self.batches.append(len(frames))
        elif message["msg_type"] == "update_display_data":
            self.records.append(content)
