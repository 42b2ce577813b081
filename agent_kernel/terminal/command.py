"""The options of `agent-kernel chat`, and what it makes of them, of its output and its environment.

It imports the rest when the command runs, so that other commands start without it.
"""

import argparse
import asyncio
import io
import shutil
import sys
from collections.abc import Callable

INTERRUPTED = 130
"""The exit code after Ctrl+C in a script."""
ENDLESS = 1_000_000
"""The columns of an output that is no terminal: its lines are not wrapped."""


def add_options(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "chat",
        help="follow a conversation in a terminal: approve, deny, answer, ask for more",
        description="Follows a conversation of a Jupyter server, and asks you what waits for a person, as the cards in "
        "the notebook do; the first answer counts, wherever it is given. Without a name: a list of open conversations. "
        "Ctrl+C offers to stop the run or to leave; leaving stops nothing. Where the output is no terminal, the text "
        "of the run that goes on, or of the last one, is printed to its end.",
        epilog="Exit code: 0 if the run is complete or you have left, 1 if it failed or was stopped, 130 after Ctrl+C "
        "in a script. The token comes from the running server's own file, or from JUPYTER_TOKEN.",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("conversation", nargs="?", metavar="CONVERSATION", help="its id")
    which.add_argument("--notebook", metavar="PATH", help="the newest conversation of this notebook")
    which.add_argument("--latest", action="store_true", help="the newest open conversation, or the newest of all")
    parser.add_argument("--server", metavar="URL", help="the Jupyter server (the one that runs on this machine)")
    parser.add_argument(
        "--token", help="the server's token; JUPYTER_TOKEN is better, because others can see a command's options"
    )
    parser.add_argument("--json", action="store_true", help="print each event as a line of JSON, and ask nothing")


def run_command(options: argparse.Namespace) -> int:
    """Returns the exit code. Raises `AgentKernelError`."""
    from agent_kernel.terminal.chat import run_chat
    from agent_kernel.terminal.choose import Wanted

    wanted = Wanted(options.conversation, options.notebook, options.latest, options.server, options.token)
    out = sys.stdout
    if isinstance(out, io.TextIOWrapper):
        out.reconfigure(errors="replace")  # a terminal of another encoding shows what it can
    is_terminal = out.isatty()
    try:
        return asyncio.run(run_chat(wanted, as_json=options.json, out=out, columns=_columns(is_terminal)))
    except KeyboardInterrupt:
        return INTERRUPTED


def _columns(is_terminal: bool) -> Callable[[], int]:
    return (lambda: shutil.get_terminal_size().columns) if is_terminal else (lambda: ENDLESS)
