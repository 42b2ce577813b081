"""The executor: everything that runs in the notebook's kernel. Queued messages run calls by `take` and `take_async`."""


def install() -> None:
    """Have this kernel answer the server's requests. Idempotent."""
    from agent_kernel.notebook.kernel.link import install as install_link

    install_link()


def take(approval_id: str, deposit: str | None = None) -> None:
    """Run a deposited call on this thread, the main one. Does nothing if the call was claimed already, or awaits.

    `deposit`: the request that deposits it, as JSON, where it may not have been sent by itself. One that is refused
    deposits nothing; the server is told the reason when it sends the request.
    """
    from agent_kernel.notebook.kernel.state import kernel_state

    state = kernel_state()
    if deposit is None or state.on_deposit(deposit):
        state.executor.run_deposited(approval_id)


async def take_async(approval_id: str) -> None:
    """As `take`, for a call that awaits."""
    from agent_kernel.notebook.kernel.state import kernel_state

    await kernel_state().executor.run_next_async(approval_id)
