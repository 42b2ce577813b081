"""Cassettes: what is recorded is said again, and what is not recorded is said to be missing."""

import json
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.approvals.scripted import ScriptedDecision
from agent_kernel.errors import ConfigurationError, ModelRefused
from agent_kernel.models.base import ModelRequest, ModelTurn, ReasoningDelta, TextDelta, TokenUsage, WireMessage
from agent_kernel.models.cassette import Cassette, load_cassette
from agent_kernel.models.replay import DEMO_CASSETTE, ReplayModel
from agent_kernel.runtime.state.history import with_context
from agent_kernel.testing import VirtualClock
from agent_kernel.tools.outcome_texts import (
    DENIED_PREFIX,
    EDITED_NOTE,
    ERROR_PREFIX,
    cancelled_before_start,
    superseded,
    unknown,
)
from tests.core.models.model_fixtures import collect, turn_of

CASSETTE: dict[str, Any] = {
    "version": 1,
    "title": "Penguins",
    "model": "gpt-5.2",
    "notice": "Recorded answers",
    "conversations": [
        {
            "prompt": "Summarise the table",
            "turns": [
                {
                    "step": 0,
                    "after": "start",
                    "content": "Let me look.",
                    "reasoning": "A table.",
                    "tool_calls": [
                        {"name": "run_python", "arguments": {"code": "df.describe()"}},
                        {"name": "list_files"},
                    ],
                    "usage": {"input_tokens": 12, "output_tokens": 3},
                },
                {"step": 1, "after": "success", "content": "It has 344 rows."},
                {"step": 1, "after": "denied", "content": "I leave it alone."},
                {"step": 1, "after": "error", "content": "That failed."},
            ],
            "decisions": [{"tool_name": "run_python", "approved": False, "reason": "Not now"}, {"approved": True}],
        },
        {"prompt": "Thank you", "turns": [{"step": 0, "content": "Gladly."}]},
    ],
}

Messages = list[WireMessage]


def replay(**changes: Any) -> ReplayModel:
    return ReplayModel(Cassette.model_validate(CASSETTE | changes), name="demo")


def after(*results: str) -> Messages:
    asked: WireMessage = {"role": "assistant", "content": "", "tool_calls": []}
    return [user("Summarise the table"), asked, *({"role": "tool", "content": result} for result in results)]


def user(content: Any) -> WireMessage:
    return {"role": "user", "content": content}


async def answer(messages: Messages, model: ReplayModel | None = None) -> ModelTurn:
    return await turn_of(model or replay(), ModelRequest([{"role": "system", "content": "You are..."}, *messages]))


def names_in(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


@pytest.mark.parametrize(
    "prompt",
    [
        "Summarise the table",
        "  Summarise\n  the table\n",
        with_context("Summarise the table", "df: DataFrame (344, 8)"),
        [{"type": "text", "text": "Summarise the table"}],
    ],
)
async def test_a_recorded_prompt_is_answered(prompt: Any) -> None:
    turn = await answer([user(prompt)])
    assert turn.content == "Let me look."
    assert turn.usage == TokenUsage(12, 3)
    assert [(one.name, json.loads(one.arguments)) for one in turn.tool_calls] == [
        ("run_python", {"code": "df.describe()"}),
        ("list_files", {}),
    ]


@pytest.mark.parametrize(
    ("results", "said"),
    [
        (["344 rows", "a.csv"], "It has 344 rows."),
        ([f"{DENIED_PREFIX} by the user.", "a.csv"], "I leave it alone."),
        (["344 rows", f"{ERROR_PREFIX}: NameError"], "That failed."),
        ([f"{ERROR_PREFIX}: NameError", f"{DENIED_PREFIX} by the user."], "I leave it alone."),
        ([f"{EDITED_NOTE} before approving. What ran: {{}}\n\n344 rows"], "It has 344 rows."),
        ([f"{EDITED_NOTE} before approving. What ran: {{}}\n\n{ERROR_PREFIX}: NameError"], "That failed."),
        ([cancelled_before_start("By you."), "a.csv"], "That failed."),
        ([superseded()], "That failed."),
        ([unknown("The kernel died.")], "That failed."),
    ],
    ids=[
        *("success", "denied", "error", "denied and error", "edited", "edited and failed"),
        *("cancelled", "replaced", "unknown"),
    ],
)
async def test_the_recording_goes_on_from_what_became_of_the_calls(results: list[str], said: str) -> None:
    assert (await answer(after(*results))).content == said


async def test_an_alternative_for_edited_calls_is_preferred() -> None:
    turns = [*CASSETTE["conversations"][0]["turns"], {"step": 1, "after": "edited", "content": "As you changed it."}]
    model = replay(conversations=[{"prompt": "Summarise the table", "turns": turns}])
    assert (await answer(after(f"{EDITED_NOTE}...\n\n344 rows"), model)).content == "As you changed it."


async def test_the_same_prompt_again_begins_again() -> None:
    messages = [*after("344 rows"), {"role": "assistant", "content": "It has 344 rows."}, user("Summarise the table")]
    assert (await answer(messages)).content == "Let me look."


async def test_an_unknown_prompt_lists_what_is_recorded_and_how_to_use_a_real_model() -> None:
    with pytest.raises(ModelRefused) as caught:
        await answer([user("What is love?")])
    text = str(caught.value)
    assert "demo is a recording and can't answer 'What is love?'" in text
    assert "\n- Summarise the table\n- Thank you\n" in text
    assert "OPENAI_API_KEY" in text


async def test_a_step_that_is_not_recorded_is_said_to_be_missing() -> None:
    messages = [*after("344 rows"), {"role": "assistant", "content": ""}, {"role": "tool", "content": "more"}]
    with pytest.raises(ModelRefused, match="no recorded answer to 'Summarise the table' at step 2 after success"):
        await answer(messages)


async def test_words_come_one_by_one_at_the_given_pace() -> None:
    clock = VirtualClock()
    model = ReplayModel(Cassette.model_validate(CASSETTE), name="demo", pace=0.25, clock=clock)
    items = await collect(model, ModelRequest([user("Summarise the table")]))
    assert items[:5] == [
        ReasoningDelta("A"),
        ReasoningDelta(" table."),
        TextDelta("Let"),
        TextDelta(" me"),
        TextDelta(" look."),
    ]
    assert clock.slept == [0.25] * 5


def test_a_recording_says_that_it_is_one() -> None:
    assert replay().recorded
    assert replay().notice == "Recorded answers"


def test_recorded_decisions_answer_the_approvals_of_a_prompt() -> None:
    assert replay().scripted_decisions(" Summarise the  table ") == (
        ScriptedDecision(approved=False, tool_name="run_python", reason="Not now", recorded=True),
        ScriptedDecision(approved=True, recorded=True),
    )
    assert replay().scripted_decisions("Thank you") == ()
    assert replay().scripted_decisions("What is love?") == ()


def test_the_shipped_demo_answers_each_of_its_prompts_whatever_is_decided() -> None:
    model = ReplayModel.from_file(DEMO_CASSETTE, name="demo")
    assert model.notice
    for conversation in model.cassette.conversations:
        steps = {turn.step: turn for turn in conversation.turns if turn.after in ("start", "success", "any")}
        assert sorted(steps) == list(range(len(steps)))
        assert not steps[len(steps) - 1].tool_calls
        asking = [turn.step for turn in conversation.turns if turn.tool_calls]
        for step in asking:
            outcomes = {turn.after for turn in conversation.turns if turn.step == step + 1}
            assert "any" in outcomes or {"success", "denied"} <= outcomes


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{nonsense", "is not JSON"),
        ('{"version": 2}', "not valid at version"),
        ('{"version": 1, "turns": []}', "not valid at turns: Extra inputs"),
        ('{"conversations": [{"prompt": "a", "turns": [{"step": -1}]}]}', "not valid at conversations.0.turns.0.step"),
        ("[]", "not valid at"),
    ],
)
def test_a_broken_cassette_says_where_it_is_broken(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "mine.json"
    path.write_text(content)
    with pytest.raises(ConfigurationError) as caught:
        load_cassette(path)
    assert "mine.json" in str(caught.value)
    assert said in str(caught.value)


def test_a_missing_or_huge_cassette_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"mine\.json can't be read: No such file"):
        load_cassette(tmp_path / "mine.json")
    with (tmp_path / "huge.json").open("wb") as file:
        file.truncate(17 * 1024 * 1024)
    with pytest.raises(ConfigurationError, match="larger than 16 MiB"):
        load_cassette(tmp_path / "huge.json")
