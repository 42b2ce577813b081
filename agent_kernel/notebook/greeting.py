"""What comes before everything else in a kernel that loads the extension: the first word to the server. It imports next
to nothing itself."""

from IPython.core.interactiveshell import InteractiveShell

from agent_kernel.notebook.kernel.environment import is_served, kernel_of
from agent_kernel.protocol.kernel_topics import EVENT_TOPIC, EVENT_TYPE, HELLO


def greet_server(shell: InteractiveShell) -> None:
    """Say that this kernel has the extension, if a server with the extension started it. The server then loads the
    agent's runtime."""
    if is_served(shell):
        kernel = kernel_of(shell)
        assert kernel is not None
        kernel.session.send(kernel.iopub_socket, EVENT_TYPE, HELLO, ident=EVENT_TOPIC)
