"""The executor: what runs in the notebook's kernel. `take` and `take_async` are how a queued message runs a call."""


def install() -> None:
    """Let the server's requests into this kernel. Idempotent."""
    from agent_kernel.notebook.kernel.link import install as install_link

    install_link()


def take(approval_id: str) -> None:
    """Run a deposited call on this, the main, thread. Does nothing if somebody else has claimed it, or if it awaits."""
    from agent_kernel.notebook.kernel.state import kernel_state

    kernel_state().executor.run_sent(approval_id)


async def take_async(approval_id: str) -> None:
    """As `take`, for a call that awaits."""
    from agent_kernel.notebook.kernel.state import kernel_state

    await kernel_state().executor.run_next_async(approval_id)
