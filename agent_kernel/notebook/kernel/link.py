"""`Link`: sends this kernel's events to the server extension."""

import threading
from collections.abc import Callable
from typing import Any

from agent_kernel.protocol.kernel import KernelMessage
from agent_kernel.protocol.kernel_events import EVENT_TOPIC, EVENT_TYPE, RunAnnounced

ANNOUNCE_SECONDS = 1.0
ANNOUNCE_TRIES = 15


class Link:
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
