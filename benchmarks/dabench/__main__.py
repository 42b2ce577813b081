"""`python -m benchmarks.dabench`: fetch the questions, run them, write the report."""

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import get_args

from agent_kernel.approvals.scripted import ApprovalMode
from agent_kernel.errors import AgentKernelError
from benchmarks.dabench.dataset import BASE, DATA, ROOT, DabenchError, Dataset, digests, fetch, load
from benchmarks.dabench.report import MARKDOWN, Graded, Report, write_report
from benchmarks.dabench.run import Answerer, Outcome, Settings, read_outcomes, read_settings, run_questions
from benchmarks.dabench.scripted import ANSWERS, environment, player, read_code, read_disputed

RESULTS = ROOT / "benchmarks" / "results" / "dabench"
EPILOG = """With --model, code that the model writes runs on this machine with your rights, unasked where --approve is
all: use a machine or a container that may be lost. A run that was stopped goes on with the same command."""


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dabench", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    fetching = commands.add_parser("fetch", help="get the questions, labels and tables, and check them")
    fetching.add_argument("--from", dest="checkout", type=Path, metavar="DIR", help="a checkout of InfiAgent/InfiAgent")
    running = commands.add_parser(
        "run", help="run questions, and write the report", epilog=EPILOG, description="Run questions as notebooks."
    )
    who = running.add_mutually_exclusive_group(required=True)
    who.add_argument("--model", metavar="NAME", help="a model's name, as %%%%agent --model takes it")
    who.add_argument("--scripted", action="store_true", help="no model: play the answers that are written as code")
    running.add_argument(
        "--approve",
        choices=get_args(ApprovalMode),
        help="what answers calls that ask, as in agent-kernel run; --model needs it",
    )
    running.add_argument("-j", "--jobs", type=_positive, default=1, metavar="N", help="notebooks at once (%(default)s)")
    running.add_argument("--only", type=_ids, default=(), metavar="IDS", help="some questions: 0,5,7")
    running.add_argument(
        "--timeout", type=_positive, default=900, metavar="SECONDS", help="for one question (%(default)s)"
    )
    running.add_argument(
        "--output", type=Path, metavar="DIR", help="where results go (benchmarks/results/dabench/NAME)"
    )
    running.add_argument("--retry-errors", action="store_true", help="ask questions again whose run has failed")
    running.add_argument("--answers", type=Path, default=ANSWERS, metavar="DIR", help="with --scripted: other answers")
    reporting = commands.add_parser("report", help="write the report again, of what has ended so far")
    reporting.add_argument("folder", type=Path, metavar="DIR", help="the --output of a run")
    for command in (fetching, running, reporting):
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
        match options.command:
            case "fetch":
                return _fetch(options)
            case "run":
                return _run(options)
            case _:
                outcomes = read_outcomes(options.folder)
                return _report(read_settings(options.folder), load(options.data), options.folder, outcomes)
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
    dataset = load(options.data, options.only)
    settings = Settings(model=options.model, approve=options.approve or "all", timeout=options.timeout)
    folder = options.output or RESULTS / re.sub(r"[^\w.-]+", "-", options.model or "scripted")
    with ExitStack() as stack:
        if options.scripted:
            codes = read_code(options.answers)
            service = stack.enter_context(player(codes))
            answerer = Answerer(lambda question: environment(service, question.id), codes)
        else:
            answerer = Answerer(lambda _: {"AGENT_KERNEL_MODEL": options.model})
        outcomes = run_questions(dataset, folder, settings, answerer, options.jobs, retry=options.retry_errors)
    return _report(settings, dataset, folder, outcomes)


def _report(settings: Settings, dataset: Dataset, folder: Path, outcomes: Mapping[int, Outcome]) -> int:
    """Write the report and say where it is. Returns the exit status: 1 where answers that were played are neither as
    their labels nor disputed, or where a question was not asked."""
    graded = [Graded(one, dataset.labels[one.id], outcomes.get(one.id)) for one in dataset.questions]
    report = Report(settings, graded, read_disputed() if settings.model is None else {})
    write_report(report, folder)
    scores = report.scores
    print(
        f"{report.title}: {scores.by_question:.2%} of {len(report.asked)} questions, {scores.by_answer:.2%} of their "
        f"answers.\nThe report: {folder / MARKDOWN}"
    )
    return 1 if len(report.asked) < len(graded) or report.unexplained else 0


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 on")
    return int(text)


def _ids(text: str) -> tuple[int, ...]:
    if not re.fullmatch(r"\d+(,\d+)*", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no list of ids such as 0,5,7")
    return tuple(int(number) for number in text.split(","))


if __name__ == "__main__":
    sys.exit(main())
