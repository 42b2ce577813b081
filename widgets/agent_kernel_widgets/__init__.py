"""The client of Agent Kernel: a widget that shows a run and sends decisions. It holds no truth of its own."""

from agent_kernel_widgets.run import AgentRun

__all__ = ["AgentRun"]
