"""The names by which the messages of the kernel link are told from others. A module of its own: it imports nothing."""

REQUEST_TYPE = "agent_kernel_request"
REPLY_TYPE = "agent_kernel_reply"
EVENT_TYPE = "agent_kernel_event"
EVENT_TOPIC = b"agent_kernel"
HELLO = {"event": "hello"}
"""The content of `first_prompt.Hello`, for a kernel that has imported nothing yet."""
