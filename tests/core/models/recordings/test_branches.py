"""Turns that were written for an outcome, as the demo's are: the recording goes on from each decision."""

import json
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.errors import ModelRefused
from agent_kernel.models.base import TokenUsage, WireMessage
from agent_kernel.models.recordings.format import load
from agent_kernel.models.recordings.player import RecordedModel
from agent_kernel.models.resolver import DEMO
from agent_kernel.tools.outcome_texts import EDITED_NOTE, ERROR_PREFIX, denied
from tests.core.models.model_fixtures import turn_of
from tests.core.models.recordings.questions import called, replayed, request, user

PROMPT = "Summarise the table"
LOOK = [{"name": "run_python", "arguments": {"code": "df.describe()"}}, {"name": "list_files"}]
FIRST = {"content": "Let me look.", "reasoning": "A table.", "calls": LOOK, "usage": {"input_tokens": 12}}
LINES: list[dict[str, Any]] = [
    {"kind": "recording", "version": 2, "notice": "Recorded answers"},
    {"kind": "turn", "prompt": PROMPT, "after": "start", "answer": FIRST},
    *(
        {"kind": "turn", "prompt": PROMPT, "step": 1, "after": after, "answer": {"content": content}}
        for after, content in [("success", "It has 344 rows."), ("denied", "I leave it."), ("error", "That failed.")]
    ),
    {"kind": "decision", "prompt": PROMPT, "tool": "run_python", "approved": False, "reason": "Not now"},
    {"kind": "decision", "prompt": PROMPT, "approved": True},
    {"kind": "turn", "prompt": "Thank you", "after": "start", "answer": {"content": "Gladly."}},
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return written(tmp_path / "mine.jsonl", *LINES)


def written(path: Path, *lines: dict[str, Any]) -> Path:
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


def after(*results: str) -> list[WireMessage]:
    return [user(PROMPT), *called("df.describe()", *results)]


async def said(path: Path, *messages: WireMessage) -> str:
    return (await replayed(path, request(*messages))).content


async def test_a_prompt_is_answered_whatever_else_the_model_is_told(path: Path) -> None:
    for told in ("", "- df: DataFrame (9, 9)"):
        turn = await replayed(path, request(user(PROMPT, told), tools=[]))
        assert (turn.content, turn.usage) == ("Let me look.", TokenUsage(12))
        assert [(one.name, json.loads(one.arguments)) for one in turn.tool_calls] == [
            ("run_python", {"code": "df.describe()"}),
            ("list_files", {}),
        ]


@pytest.mark.parametrize(
    ("results", "answer"),
    [
        (["344 rows", "a.csv"], "It has 344 rows."),
        ([denied("by the user", "No."), "a.csv"], "I leave it."),
        ([f"{EDITED_NOTE} before approving. What ran: {{}}\n\n344 rows"], "It has 344 rows."),
        ([f"{EDITED_NOTE} before approving. What ran: {{}}\n\n{ERROR_PREFIX}: NameError"], "That failed."),
    ],
)
async def test_the_recording_goes_on_from_what_became_of_the_calls(path: Path, results: list[str], answer: str) -> None:
    assert await said(path, *after(*results)) == answer


async def test_an_unknown_prompt_lists_what_is_recorded_and_how_to_use_a_real_model(path: Path) -> None:
    prompt = f"{PROMPT}!"
    with pytest.raises(ModelRefused) as caught:
        await said(path, user(prompt))
    recording = f"replay:x is a recording and can't answer {prompt!r}"
    for words in (recording, f"\n- {PROMPT}\n- Thank you\n", "OPENAI_API_KEY"):
        assert words in str(caught.value)


async def test_the_shipped_demo_answers_each_of_its_prompts_to_the_end() -> None:
    model = RecordedModel(load(DEMO), name="demo")
    for prompt in dict.fromkeys(one.turn.prompt for one in load(DEMO).turns):
        for result in ("344 rows", denied("by the user", None)):
            messages = [user(prompt)]
            while (turn := await turn_of(model, request(*messages))).tool_calls:
                messages += called("x", *[result for _ in turn.tool_calls])
            assert turn.content
