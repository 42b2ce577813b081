"""From a decision to the first line of the tool, in a new conversation and after 800 messages."""

from typing import Any

from benchmarks.frame import Figure, Goal, ModelServer, Report, Worker, median, take_turns, workers

LONG = 800
SAMPLES = 10
"""Samples of each length in each round."""
CONTENDERS = ("ours", "raw aiohttp, log", "create_agent")


def run(rounds: int) -> Report:
    report = Report()
    with ModelServer() as server, workers(CONTENDERS, server.url) as contenders:
        report.raw = dict(take_turns(contenders, rounds, _approve))
    _judge(_middles(report.raw, 0), _middles(report.raw, LONG), report)
    return report


def _approve(worker: Worker) -> dict[str, Any]:
    return worker("approvals", count=SAMPLES, lengths=[0, LONG])


def _middles(found: dict[str, list[dict[str, Any]]], messages: int) -> dict[str, float]:
    """The median of each contender in conversations of this length."""
    return {
        name: median([one for result in results for one in result["entered"][str(messages)]])
        for name, results in found.items()
    }


def _judge(short: dict[str, float], long: dict[str, float], report: Report) -> None:
    report.figures.append(Figure("approve -> tool entered, log on disk", short["ours"], "ms", beside=_others(short)))
    if "create_agent" in short:
        goal = Goal(0.6, "0.6 times create_agent's with its state on SQLite")
        report.figures += [
            Figure("... by create_agent's", short["ours"] / short["create_agent"], "x", goal),
        ]
    same = Goal(1.5, "1.5 times a new conversation's")
    report.figures += [
        Figure("approve -> tool entered, after 800 messages", long["ours"], "ms", beside=_others(long)),
        Figure("... by that of a new conversation", long["ours"] / short["ours"], "x", same),
    ]


def _others(entered: dict[str, float]) -> dict[str, float]:
    return {name: value for name, value in entered.items() if name != "ours"}
