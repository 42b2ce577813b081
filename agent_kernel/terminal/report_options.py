"""The options of `agent-kernel report`."""

import argparse
from pathlib import Path

_EPILOG = """\
exit status: 0 if all notebooks passed and their audit trails are whole; 1 if not; 2 if there is nothing to report."""


def add_report_options(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "report",
        help="what came of all notebooks of a batch, from the folder that `agent-kernel run --logs` wrote",
        description="Read the results and the agents' logs in a folder and all below it, also of notebooks that still "
        "run or that died, and print what came of them. The logs are only read.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("logs", type=Path, metavar="DIR", help="the folder of `agent-kernel run --logs`")
    parser.add_argument(
        "--expect",
        type=Path,
        metavar="FILE",
        help="names, one a line: without a result, they are reported as not begun",
    )
    for option, what in (
        ("--json", "the report as JSON"),
        ("--markdown", "the report as a table in Markdown"),
        ("--junit", "the report as JUnit XML: a suite for each notebook"),
        ("--audit", "all audit trails as one, a JSON object a line, the oldest first"),
    ):
        parser.add_argument(option, type=Path, metavar="FILE", help=f"write {what}")
