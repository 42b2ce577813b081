"""The commands and options of `agent-kernel`."""

import argparse
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from agent_kernel.approvals.scripted import ApprovalMode

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001 -- its type has no other name

PASSED, FAILED, NOT_RUN, INTERRUPTED = 0, 1, 2, 130
"""Exit statuses."""
STDOUT = Path("-")
_STATUS_OF_RUN = """\
exit status: 0 if all notebooks passed; 1 if a cell or an agent's run failed, or a kernel died; 2 if nothing was run,
because of a wrong option or a file that is no notebook; 130 after Ctrl+C."""
_STATUS_OF_REPORT = """\
exit status: 0 if all notebooks passed and their audit trails are whole; 1 if not; 2 if there is nothing to report."""


def parser_of_commands() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="agent-kernel", description="An agent that lives in a Jupyter notebook.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    demo = commands.add_parser(
        "demo", help="open JupyterLab on copies of the demo notebooks; other options are JupyterLab's"
    )
    demo.add_argument(
        "--directory", type=Path, default=Path(".agent-kernel/demo"), help="where the copies go (%(default)s)"
    )

    _add_run(commands)
    _add_report(commands)
    _add_record(commands)
    _add_chat(commands)
    _add_mcp(commands)
    _add_export(commands)

    examined = commands.add_parser(
        "doctor",
        help="say what is missing, and what to do about it; each model endpoint is asked once, for a few tokens",
    )
    examined.add_argument("--offline", action="store_true", help="ask no model")

    ready = commands.add_parser(
        "setup",
        help="have %%%%agent in each kernel without %%load_ext: a file in IPython's start-up folder",
    )
    ready.add_argument("--undo", action="store_true", help="remove that file")
    ready.add_argument("--yes", action="store_true", help="do not ask first")

    audit = commands.add_parser(
        "audit",
        help="print every decision and outcome of the log, oldest first, one JSON object a line",
        parents=[_log_option()],
    )
    audit.add_argument("--conversation", metavar="ID", help="only what belongs to this conversation")
    audit.add_argument("--since", type=_date, metavar="DATE", help="only from this day or time on (ISO 8601, UTC)")
    audit.add_argument(
        "--check", action="store_true", help="say whether the trail is whole; exit code 1 names the first bad entry"
    )
    _add_rules(commands)
    return parser


def _add_run(commands: "Commands") -> None:
    parser = commands.add_parser(
        "run",
        help="run notebooks without a page; exit status 1 where a cell or an agent's run fails",
        description="Run notebooks from top to bottom, each in a kernel of its own. A notebook ends at the first cell "
        "that fails, the others go on. Each is written as far as it came.",
        epilog=_STATUS_OF_RUN,
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


def _add_report(commands: "Commands") -> None:
    parser = commands.add_parser(
        "report",
        help="what came of all notebooks of a batch, from the folder that `agent-kernel run --logs` wrote",
        description="Read the results and the agents' logs in a folder and all below it, also of notebooks that still "
        "run or that died, and print what came of them. The logs are only read.",
        epilog=_STATUS_OF_REPORT,
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
        ("--junit", "the report as JUnit XML: a suite for each notebook"),
        ("--audit", "all audit trails as one, a JSON object a line, the oldest first"),
    ):
        parser.add_argument(option, type=Path, metavar="FILE", help=f"write {what}")


def _add_record(commands: "Commands") -> None:
    parser = commands.add_parser(
        "record",
        help="run a notebook and record what its models answer, for replay:PATH; all turns, or some again",
        description="Cells that name a recording (--model replay:PATH, --record PATH) are recorded there, the others "
        "beside the notebook. The model is that of AGENT_KERNEL_MODEL or of your key. The notebook stays as it is.",
    )
    parser.add_argument("notebook", type=Path)
    turns = parser.add_mutually_exclusive_group()
    turns.add_argument("--turn", type=_positive, metavar="N", help="record the Nth turn again, and keep all others")
    turns.add_argument("--from", type=_positive, metavar="N", dest="first", help="play up to turn N, record from it on")
    parser.add_argument("--to", type=Path, metavar="PATH", help="the recording of cells that name none (NAME.jsonl)")
    parser.add_argument("--timeout", type=float, help="seconds that one cell may take (no limit)")


def _add_chat(commands: "Commands") -> None:
    parser = commands.add_parser(
        "chat",
        help="follow a conversation in a terminal: approve, deny, answer, ask for more",
        description="Follows a conversation of a Jupyter server, and asks you what waits for a person, as the cards in "
        "the notebook do; the first answer counts, wherever it is given. Without a name: the newest conversation that "
        "waits or goes on, else the newest. /stop stops the run; Ctrl+C and Ctrl+D leave, which stops nothing. Where "
        "the output is no terminal, the run that goes on, or the last one, is printed to its end.",
        epilog="Exit code: 0 if the run is complete or you have left, 1 if it failed or was stopped, 130 after Ctrl+C.",
        parents=[_server_options()],
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("conversation", nargs="?", metavar="CONVERSATION", help="its id")
    which.add_argument("--notebook", metavar="PATH", help="that of this notebook, by its path on the server")


def _add_mcp(commands: "Commands") -> None:
    parser = commands.add_parser(
        "mcp",
        help="notebooks and kernels for agents outside: an MCP server over stdio, or its configuration (--print)",
        description="Leads a program that speaks the Model Context Protocol over stdio to a Jupyter server. Each call "
        "is a card in the notebook, as one of the notebook's own agent. With --print: the configuration of a program "
        "that reaches the server over HTTP itself, or with --stdio by this command. No configuration has a token.",
        parents=[_server_options()],
    )
    parser.add_argument("--print", choices=("claude", "codex", "vscode", "cursor", "qwen"), help="print, serve nothing")
    parser.add_argument("--stdio", action="store_true", help="with --print: by this command, without a token")


def _add_export(commands: "Commands") -> None:
    parser = commands.add_parser(
        "export",
        help="write a run of the log as a notebook that repeats it without an agent, as messages, or as Markdown",
        description="Without RUN: the last runs of the log. Without FILE: the text is printed. The log is only read, "
        "and a server may have it open; of a run that goes on, what it did by now is written.",
        parents=[_log_option()],
    )
    parser.add_argument("run", nargs="?", metavar="RUN", help="a run's id, the beginning of it, or last")
    parser.add_argument("--force", action="store_true", help="replace FILE where it exists")
    forms = parser.add_mutually_exclusive_group()
    for option, text in (
        ("--notebook", "a notebook: the prompt, the code that ran, and the answer; what did not run is a comment"),
        ("--messages", "the conversation up to the run's end, as JSON: a list of messages in OpenAI's chat format"),
        ("--markdown", "the record of the run; this is the default"),
    ):
        forms.add_argument(option, nargs="?", const=STDOUT, type=Path, metavar="FILE", help=text)


def _add_rules(commands: "Commands") -> None:
    parser = commands.add_parser(
        "rules",
        help="list the rules that people saved by Always allow, or remove one",
        description="A rule is made by a person's answer to a card, and in no other way. One that is removed allows no "
        "call from then on, in runs that are under way too.",
        parents=[_log_option()],
    )
    parser.add_argument("action", nargs="?", choices=("list", "remove"), default="list")
    parser.add_argument("rule", nargs="?", metavar="ID", help="the id of the rule to be removed, or its beginning")


def _server_options() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(add_help=False)
    options.add_argument("--server", metavar="URL", help="the Jupyter server (the newest on this machine)")
    options.add_argument(
        "--token",
        help="the server's token; without it that of the server's own file, or JUPYTER_TOKEN, which is better, because "
        "others can see a command's options",
    )
    return options


def _log_option() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(add_help=False)
    options.add_argument("--log", type=Path, help="the log's file (the server's default)")
    return options


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 9 or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 on")
    return int(text)


def _date(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no date such as 2026-11-21 or 2026-11-21T08:30") from None
