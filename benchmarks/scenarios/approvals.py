"""From a decision to the first line of the tool, in a new conversation and after 800 messages."""

from functools import partial
from typing import Any

from benchmarks.frame import Figure, Goal, ModelServer, Report, Worker, median, take_turns, workers

LONG = 800
SAMPLES = 10
"""In each turn, short or long: the first find nothing in the processor's caches, and must count the same in both."""
CONTENDERS = (
    "ours",
    "ours, parked",
    "raw aiohttp, log",
    "LangGraph + openai",
    "create_agent",
    "pydantic-ai",
    "openai-agents",
)


def run(rounds: int) -> Report:
    entered: dict[int, dict[str, float]] = {}
    report = Report()
    with ModelServer() as server, workers(CONTENDERS, server.url) as contenders:
        for messages in (0, LONG):
            found = take_turns(contenders, rounds, partial(_approve, messages))
            report.raw[str(messages)] = found
            entered[messages] = {name: _middle(results) for name, results in found.items()}
    _judge(entered[0], entered[LONG], report)
    return report


def _approve(messages: int, worker: Worker) -> dict[str, Any]:
    return worker("approvals", count=SAMPLES, messages=messages)


def _middle(results: list[dict[str, Any]]) -> float:
    return median([one for result in results for one in result["entered"]])


def _judge(short: dict[str, float], long: dict[str, float], report: Report) -> None:
    report.figures.append(Figure("approve -> tool entered, log on disk", short["ours"], "ms", beside=_others(short)))
    if "create_agent" in short:
        goal = Goal(0.4, "0.4 times create_agent's with its state on SQLite")
        report.figures += [
            Figure("... by create_agent's", short["ours"] / short["create_agent"], "x", goal),
            Figure("... where the run was parked", short["ours, parked"] / short["create_agent"], "x", goal),
        ]
    same = Goal(1.2, "no slower, a fifth allowed for noise")
    report.figures += [
        Figure("approve -> tool entered, after 800 messages", long["ours"], "ms", beside=_others(long)),
        Figure("... by that of a new conversation", long["ours"] / short["ours"], "x", same),
    ]


def _others(entered: dict[str, float]) -> dict[str, float]:
    return {name: value for name, value in entered.items() if name != "ours"}
