"""The options of `agent-kernel run`."""

import argparse
from pathlib import Path
from typing import get_args

from agent_kernel.approvals.unattended import ApprovalMode

PASSED, FAILED, NOT_RUN, INTERRUPTED = 0, 1, 2, 130
"""Exit statuses: see the epilog below."""
_EPILOG = """\
exit status: 0 if all notebooks passed; 1 if a cell or an agent's run failed, or a kernel died; 2 if nothing was run,
because of a wrong option or a file that is no notebook; 130 after Ctrl+C."""


def add_run_options(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "run",
        help="run notebooks without a page; exit status 1 where a cell or an agent's run fails",
        description="Run notebooks from top to bottom, each in a kernel of its own. A notebook ends at the first cell "
        "that fails, the others go on. Each is written as far as it came.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("notebooks", nargs="+", type=Path, metavar="NOTEBOOK")
    parser.add_argument("-j", "--jobs", type=_positive, default=1, metavar="N", help="notebooks at once (%(default)s)")
    parser.add_argument(
        "--approve",
        choices=get_args(ApprovalMode),
        help="what answers calls that ask: none denies them, recorded takes the decisions of the recording that is "
        "played, all approves what no rule denies (AGENT_KERNEL_APPROVE, else recorded)",
    )
    parser.add_argument(
        "-p",
        "--parameter",
        nargs=2,
        action="append",
        default=[],
        dest="parameters",
        metavar=("NAME", "VALUE"),
        help="set a variable after the cell tagged `parameters`, as papermill does",
    )
    parser.add_argument(
        "--output", type=Path, metavar="DIR", help="where executed notebooks go (in place); a file for a single one"
    )
    parser.add_argument(
        "--logs", type=Path, metavar="DIR", help="write for each notebook a log, its result, and the agent's log"
    )
    parser.add_argument(
        "--once",
        action="store_true",
        help="don't run what has begun before, as DIR of --logs says: its result counts, and without one it fails",
    )
    parser.add_argument("--again", action="store_true", help="with --once: do run what has begun and did not pass")
    parser.add_argument("--junit", type=Path, metavar="FILE", help="write a report as JUnit XML")
    parser.add_argument("--timeout", type=_positive, metavar="SECONDS", help="how long one cell may take (no limit)")
    parser.add_argument("--allow-errors", action="store_true", help="go on after cells that fail, and pass")


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 on")
    return int(text)
