"""The notebook client: a widget that shows a run and sends decisions. It holds no state of its own."""

from agent_kernel_widgets.run import AgentRun

__all__ = ["AgentRun"]
