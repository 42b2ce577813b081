"""What cards and records both make of a call is one table, which `widgets/tests/alike.test.ts` reads, too."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.protocol.figures import left_out, money, tokens
from agent_kernel.record import words
from agent_kernel.record.story import summary_of
from agent_kernel.record.words import rule_text, title_of
from agent_kernel.tools.builtin.declarations import BUILTIN_NAMES
from tests.core.record.record_examples import a_call

CASES: dict[str, Any] = json.loads((Path(__file__).parents[2] / "cards_and_records.json").read_text(encoding="utf-8"))
GENERATED = Path(__file__).parents[3] / "widgets" / "src" / "text" / "words.gen.ts"


MADE: dict[str, Callable[[dict[str, Any]], str]] = {
    "summaries": lambda case: summary_of(a_call(tool=case["tool"], arguments=case["input"])),
    "titles": lambda case: title_of(case["tool"], case["summary"], case.get("cell")),
    "rules": lambda case: rule_text(case["rule"]),
    "durations": lambda case: words.duration(case["ms"]),
    "stored": lambda case: words.stored(case["cached_at"], case["ended_at"]),
    "deciders": lambda case: words.decided(a_call(by=case["by"], decided_by=case["name"], edited=case["edited"])),
    "money": lambda case: money(case["usd"]),
    "at_least": lambda case: money(case["usd"], at_least=True),
    "left_out": lambda case: left_out(case["lines"], case["characters"]),
    "tokens": lambda case: tokens(case["count"]),
}


@pytest.mark.parametrize("what", MADE)
def test_a_record_says_it_as_the_card_does(what: str) -> None:
    made = [MADE[what](case) for case in CASES[what]]
    assert made == [case.get("record", case["text"]) for case in CASES[what]]


def test_the_table_has_a_title_of_each_built_in_tool() -> None:
    assert {case["tool"] for case in CASES["summaries"]} >= set(BUILTIN_NAMES)
    assert all(title_of(name, "") for name in BUILTIN_NAMES)


def test_the_cards_have_the_words_of_the_record() -> None:
    text = GENERATED.read_text(encoding="utf-8")
    assert json.loads(text[text.index("{") : text.rindex("}") + 1]) == words.SHARED, "stale: run `npm run types`"
