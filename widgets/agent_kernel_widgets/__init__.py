"""The notebook client: a widget that shows a run and sends decisions. It holds no state of its own."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent_kernel_widgets.run import AgentRun

__all__ = ["AgentRun"]


def __getattr__(name: str) -> Any:
    """`AgentRun` is imported when it is asked for: `opened` needs nothing of it."""
    if name != "AgentRun":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from agent_kernel_widgets.run import AgentRun

    return AgentRun
