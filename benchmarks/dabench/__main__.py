"""`python -m benchmarks.dabench`: fetch the questions, run them, write the report."""

import argparse
import re
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import get_args

from agent_kernel.approvals.scripted import ApprovalMode
from agent_kernel.errors import AgentKernelError
from benchmarks.dabench.dataset import BASE, DATA, ROOT, DabenchError, digests, fetch, load
from benchmarks.dabench.report import Graded, Report, as_markdown
from benchmarks.dabench.run import Settings, run_questions
from benchmarks.dabench.scripted import ANSWERS, environment, player, read_code, read_disputed

RESULTS = ROOT / "benchmarks" / "results" / "dabench"
REPORT = "report.md"
EPILOG = """With --model, code that the model writes runs on this machine with your rights, unasked where --approve is
all: use a machine or a container that may be lost. A run that was stopped goes on with the same command."""


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dabench", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    fetching = commands.add_parser("fetch", help="get the questions, labels and tables, and check them")
    fetching.add_argument("--from", dest="checkout", type=Path, metavar="DIR", help="a checkout of InfiAgent/InfiAgent")
    running = commands.add_parser("run", help="run questions as notebooks, and write the report", epilog=EPILOG)
    who = running.add_mutually_exclusive_group(required=True)
    who.add_argument("--model", metavar="NAME", help="a model's name, as %%%%agent --model takes it")
    who.add_argument(
        "--scripted",
        nargs="?",
        const=ANSWERS,
        type=Path,
        metavar="DIR",
        help="no model: play the answers that are written as code",
    )
    running.add_argument(
        "--approve",
        choices=get_args(ApprovalMode),
        help="what answers calls that ask, as in agent-kernel run; --model needs it",
    )
    running.add_argument("-j", "--jobs", type=int, default=1, metavar="N", help="notebooks at once (%(default)s)")
    running.add_argument("--only", type=_ids, default=(), metavar="IDS", help="some questions: 0,5,7")
    running.add_argument("--timeout", type=int, default=900, metavar="SECONDS", help="for one question (%(default)s)")
    running.add_argument(
        "--output", type=Path, metavar="DIR", help="where results go (benchmarks/results/dabench/NAME)"
    )
    for command in (fetching, running):
        command.add_argument(
            "--data", type=Path, default=DATA, metavar="DIR", help="the data set's folder (%(default)s)"
        )
    options = parser.parse_args(arguments)
    if options.command == "run" and options.model is not None and options.approve is None:
        running.error(
            "--model needs --approve. With --approve all, code that the model writes runs here unasked; with none, "
            "every call that asks is denied."
        )
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    try:
        return _fetch(options) if options.command == "fetch" else _run(options)
    except (DabenchError, AgentKernelError, OSError) as error:
        print(error, file=sys.stderr)
        return 2


def _fetch(options: argparse.Namespace) -> int:
    expected = digests()
    base = BASE if options.checkout is None else options.checkout.resolve().as_uri()
    fetched = fetch(options.data, expected, base)
    print(f"{options.data} has {len(expected)} files, {fetched} of them new. All are as published.")
    return 0


def _run(options: argparse.Namespace) -> int:
    """Returns 1 where answers that were played are neither as their labels nor disputed, or where a question was not
    asked."""
    dataset = load(options.data, options.only)
    folder = options.output or RESULTS / re.sub(r"[^\w.-]+", "-", options.model or "scripted")
    with ExitStack() as stack:
        if options.scripted:
            code = read_code(options.scripted)
            service = stack.enter_context(player(code))
            settings = Settings(None, "all", options.timeout, lambda one: environment(service, one.id), code)
        else:
            variables = {"AGENT_KERNEL_MODEL": options.model}
            settings = Settings(options.model, options.approve, options.timeout, lambda _: variables)
        outcomes = run_questions(dataset, folder, settings, options.jobs)
    asked = [Graded(one, dataset.labels[one.id], outcomes[one.id]) for one in dataset.questions if one.id in outcomes]
    report = Report(settings, len(dataset.questions), asked, {} if options.model else read_disputed())
    (folder / REPORT).write_text(as_markdown(report), encoding="utf-8")
    scores = report.scores
    print(
        f"{report.title}: {scores.by_question:.2%} of {len(asked)} questions, {scores.by_answer:.2%} of their "
        f"answers.\nThe report: {folder / REPORT}"
    )
    return 1 if len(asked) < len(dataset.questions) or report.unexplained else 0


def _ids(text: str) -> tuple[int, ...]:
    if not re.fullmatch(r"\d+(,\d+)*", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no list of ids such as 0,5,7")
    return tuple(int(number) for number in text.split(","))


if __name__ == "__main__":
    sys.exit(main())
