"""What cards and records both make of a call is one table, which `widgets/tests/alike.test.ts` reads, too."""

import json
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.protocol.figures import money, tokens
from agent_kernel.record import words
from agent_kernel.record.story import summary_of
from agent_kernel.record.words import title_of
from agent_kernel.tools.builtin.declarations import BUILTIN_NAMES
from tests.core.record.record_examples import a_call

CASES: dict[str, Any] = json.loads((Path(__file__).parents[2] / "cards_and_records.json").read_text(encoding="utf-8"))
AS_JSON = json.dumps


@pytest.mark.parametrize("case", CASES["summaries"], ids=AS_JSON)
def test_the_title_of_a_call_is_cut_from_its_arguments(case: dict[str, Any]) -> None:
    assert summary_of(a_call(tool=case["tool"], arguments=case["input"])) == case.get("record", case["text"])


@pytest.mark.parametrize("case", CASES["titles"], ids=AS_JSON)
def test_a_call_says_what_it_does(case: dict[str, Any]) -> None:
    assert title_of(case["tool"], case["summary"]) == case["text"]


def test_each_built_in_tool_has_a_title() -> None:
    assert all(title_of(name, "") for name in BUILTIN_NAMES)


@pytest.mark.parametrize("case", CASES["durations"], ids=AS_JSON)
def test_how_long_a_call_took(case: dict[str, Any]) -> None:
    assert words.duration(case["ms"]) == case["text"]


@pytest.mark.parametrize("case", CASES["stored"], ids=AS_JSON)
def test_how_old_a_stored_outcome_is(case: dict[str, Any]) -> None:
    assert words.stored(case["cached_at"], case["ended_at"]) == case["text"]


@pytest.mark.parametrize("case", CASES["deciders"], ids=AS_JSON)
def test_who_decided_a_call(case: dict[str, Any]) -> None:
    assert words.decided(a_call(by=case["by"], decided_by=case["name"], edited=case["edited"])) == case["text"]


@pytest.mark.parametrize("case", CASES["money"], ids=AS_JSON)
def test_an_amount(case: dict[str, Any]) -> None:
    assert money(case["usd"]) == case["text"]


@pytest.mark.parametrize("case", CASES["at_least"], ids=AS_JSON)
def test_a_lower_bound_is_rounded_down_so_that_it_is_one(case: dict[str, Any]) -> None:
    assert money(case["usd"], at_least=True) == case["text"]


@pytest.mark.parametrize("case", CASES["tokens"], ids=AS_JSON)
def test_a_count_of_tokens(case: dict[str, Any]) -> None:
    assert tokens(case["count"]) == case["text"]


def test_the_table_has_a_title_of_each_built_in_tool() -> None:
    assert {case["tool"] for case in CASES["summaries"]} >= set(BUILTIN_NAMES)
