"""What a client is told first: the whole conversation, and then what happens after it."""

from collections.abc import Iterable
from dataclasses import dataclass

from agent_kernel.protocol.views import ToolView
from agent_kernel.runtime.clients.feed import Subscription
from agent_kernel.runtime.clients.snapshot import session_frame
from agent_kernel.runtime.conversation import Conversation
from agent_kernel.tools.builtin.declarations import BUILTIN_TOOLS
from agent_kernel.tools.declaration import ToolDeclaration

REPLAYED_EVENTS = 50_000
"""A client that left off further back is greeted again instead: the snapshot replaces all that it knows."""


@dataclass(frozen=True, slots=True)
class Greeting:
    frame: bytes
    """A `session` event."""
    last_seq: int
    subscription: Subscription
    """The events that follow its snapshot."""


def is_far_behind(conversation: Conversation, last_seq: int) -> bool:
    """Whether a client that has the events up to `last_seq` gets a snapshot in place of what it missed."""
    return conversation.last_seq - last_seq > REPLAYED_EVENTS


async def greet(conversation: Conversation) -> Greeting:
    declared = await conversation.tools()
    snapshot = await conversation.snapshot()
    frame = session_frame(snapshot, tool_views(declared or BUILTIN_TOOLS))
    return Greeting(frame, snapshot.last_seq, conversation.subscribe(snapshot.last_seq))


def tool_views(declared: Iterable[ToolDeclaration]) -> list[ToolView]:
    return [
        ToolView(name=tool.name, description=tool.description, parameters=tool.parameters, approval=tool.approval)
        for tool in declared
    ]
