"""Publishes nothing of the kernel's state for the server's requests on the control channel.

ipykernel publishes for each message that it is busy and then idle again, and pages take a kernel whose main thread runs
a cell for idle after a request. `_publish_status` is undocumented: it is used only here. Without it, all is published.
"""

from typing import Any

from agent_kernel.protocol.kernel import REQUEST_TYPE

Message = dict[str, Any]


def publish_less(kernel: Any) -> None:
    publish = getattr(kernel, "_publish_status", None)
    if publish is None:
        return

    def publish_status(status: str, channel: str, parent: Message | None = None) -> None:
        message = parent or kernel.get_parent(channel)
        if channel != "control" or message.get("header", {}).get("msg_type") != REQUEST_TYPE:
            publish(status, channel, message)

    kernel._publish_status = publish_status
