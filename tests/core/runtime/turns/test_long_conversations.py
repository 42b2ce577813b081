"""A conversation that outgrows its model's context goes on, and nothing of it is lost."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.errors import ContextExceeded, ModelUnavailable
from agent_kernel.models.base import LocalServer, ModelFacts, ModelRequest, ModelTurn
from agent_kernel.models.known import Capabilities
from agent_kernel.protocol.events import RunEvent, TokenEvent
from agent_kernel.protocol.ids import new_run_id
from agent_kernel.protocol.views import NoticeView
from agent_kernel.protocol.vocabulary import BudgetLimits
from agent_kernel.runtime.runtime import Runtime
from agent_kernel.runtime.settings import RunSpec
from agent_kernel.runtime.state.compaction import tokens_of
from agent_kernel.testing import FakeOpenAI, ScriptedModel, call, say
from agent_kernel.testing.scripted_model import ScriptedTurn
from agent_kernel.testing.wire.messages import refusal as refused
from agent_kernel.testing.wire.reply import json_reply
from tests.core.models.model_fixtures import model_at, speaking
from tests.core.runtime.runtime_fixtures import LOOK, RUN_PYTHON, FunctionExecutor, OneModel, Stage, Stages, stage

CONTEXT = 8_000
SUMMARY = "The user wants a look. The agent looked often and saw x."
WRITTEN = say(SUMMARY, usage=(1_000, 50))


def sized(
    turns: Iterable[ScriptedTurn],
    *,
    context: int | None = CONTEXT,
    summary: ScriptedTurn = WRITTEN,
    recorded: bool = False,
) -> ScriptedModel:
    """A model that has a context, and writes a summary where one is asked for."""
    return ScriptedModel(turns, facts=ModelFacts(context_tokens=context), recorded=recorded, summary=summary)


def tokens(request: ModelRequest) -> float:
    return sum(map(tokens_of, request.messages))


def seeing(characters: int) -> FunctionExecutor:
    return FunctionExecutor(lambda call, emit: "x" * characters)


def looks(count: int) -> list[ModelTurn]:
    return [call("look", call_id=f"c{number}") for number in range(count)]


def notices(stage: Stage) -> list[NoticeView]:
    found: list[NoticeView] = stage.of(RunEvent)[-1].run.notices
    return found


def sent(model: ScriptedModel, number: int = -1) -> list[dict[str, Any]]:
    return list(model.requests[number].messages)


def shared(one: Sequence[Any], other: Sequence[Any]) -> int:
    """How many messages two requests begin with alike."""
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


async def test_the_oldest_results_are_shortened_before_the_context_is_full(stages: Stages) -> None:
    with sized([*looks(9), say("Done.")]) as model:
        stage = await stages(model, executor=seeing(3_000))
        result = await stage.run("Look.")
    assert result.text == "Done."
    assert model.summary_requests == []
    assert all(tokens(request) <= 0.8 * CONTEXT for request in model.requests)
    assert [one.content for one in notices(stage)] == ["Shortened 5 older tool results for the model."]
    # The log, and what the user sees, keep everything.
    assert [len(m.content) for m in result.messages if m.role == "tool"] == [3_000] * 9
    assert [len(c.result or "") for c in result.tool_calls] == [3_000] * 9
    assert len(sent(model)[3]["content"]) <= 1_000
    assert len(sent(model)[-1]["content"]) == 3_000


async def test_older_turns_are_summarised_by_the_model_and_the_card_can_be_opened(stages: Stages) -> None:
    with sized([*looks(35), say("Done.")], recorded=True) as model:  # so that nothing is estimated
        stage = await stages(model, executor=seeing(600))
        result = await stage.run("Look.")
    assert result.text == "Done."
    assert len(model.summary_requests) == 1
    [asked] = model.summary_requests
    assert list(asked.tools) == []
    assert "User (stays as it is): Look." in asked.messages[1]["content"]
    assert "Call: look {}\n\nResult: xxx" in asked.messages[1]["content"]
    [notice] = notices(stage)
    assert (notice.content, notice.detail) == ("Summarised 42 messages", SUMMARY)
    prompt = sent(model)[1]
    assert prompt["role"] == "user"
    assert prompt["content"].startswith("Look.")
    assert "written by the model" in prompt["content"]
    assert SUMMARY in prompt["content"]
    assert all(tokens(request) <= 0.8 * CONTEXT for request in model.requests)
    assert result.run.usage.input_tokens == 1_000
    assert result.run.usage.output_tokens == 50
    assert result.run.usage.steps == 36
    assert len(result.messages) == 72
    assert not [event for event in stage.of(TokenEvent) if SUMMARY[:20] in event.content]


async def test_a_restart_makes_the_same_requests_of_the_log(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    with sized([*looks(35), say("Done."), say("Again.")]) as model:
        before = await stage(model, path, seeing(600))
        await before.run("Look.")
        await before.run("And now?")
        remembered = sent(model)
        await before.close()
    assert SUMMARY in remembered[1]["content"]
    with sized([say("Hello.")]) as model:
        runtime = await Runtime.open(path, OneModel(model))
        conversation = await runtime.conversation(before.conversation.conversation_id)
        spec = RunSpec(run_id=new_run_id(), prompt="Still there?", tools=(RUN_PYTHON, LOOK))
        await (await conversation.start_run(spec, FunctionExecutor())).wait()
        await runtime.aclose()
    assert sent(model)[: len(remembered)] == remembered
    assert [m["role"] for m in sent(model)[len(remembered) :]] == ["assistant", "user"]


@pytest.mark.parametrize("named", [True, False])
async def test_a_refusal_for_the_length_shortens_and_asks_once_more(stages: Stages, named: bool) -> None:
    refusal = ContextExceeded("Too long.", size=9_000 if named else None, limit=8_192 if named else None)
    with sized([*looks(40), refusal, say("Done.")], context=None) as model:
        stage = await stages(model, executor=seeing(700))
        result = await stage.run("Look.")
    assert result.text == "Done."
    assert len(model.summary_requests) == 1
    assert tokens(model.requests[-1]) < 0.7 * tokens(model.requests[-2])
    assert [one.content.split()[0] for one in notices(stage)] == ["Summarised"]


async def test_anthropics_service_takes_the_shortened_conversation_without_the_thoughts_of_before(
    stages: Stages,
) -> None:
    """A thought is bound to what was said before it, to the letter."""
    thoughtful = [replace(one, reasoning=f"Hm {number}.") for number, one in enumerate(looks(42))]
    refusal = refused(400, "invalid_request_error", "prompt is too long: 9000 tokens > 8192 maximum")
    async with speaking(*thoughtful[:40], refusal, say(SUMMARY), *thoughtful[40:], say("Done.")) as (server, model):
        stage = await stages(model, executor=seeing(700))
        result = await stage.run("Look.")
    assert result.text == "Done."
    assert [one.content.split()[0] for one in notices(stage)] == ["Summarised"]
    assert "tools" not in server.requests[41].body
    thoughts = [str(request.body["messages"]).count("'thinking': 'Hm ") for request in server.requests]
    assert thoughts[38:] == [38, 39, 40, 0, 0, 1, 2]


async def test_where_the_prompt_and_the_tools_alone_are_too_long_the_run_says_what_to_do(stages: Stages) -> None:
    with sized([], context=300) as model:
        stage = await stages(model)
        result = await stage.run("Look. " * 200)
    assert result.run.error is not None
    assert result.run.error.code == "LLM_ERROR"
    assert "takes 300 tokens" in result.run.error.message
    for advice in ("%agent new", "larger context", "--tools"):
        assert advice in result.run.error.message
    assert model.summary_requests == []


FINE, LONG = say("Fine."), "Look. " * 5_000


@pytest.mark.parametrize("named", [True, False, None], ids=["its limit named", "no limit named", "known before"])
@pytest.mark.parametrize("restarts", [False, True])
async def test_a_prompt_that_is_too_long_is_left_out_of_later_requests(
    tmp_path: Path, named: bool | None, restarts: bool
) -> None:
    refusal = ContextExceeded("Too long.", size=9_000 if named else None, limit=8_192 if named else None)
    refusals = [] if named is None else [refusal]
    context = 4_096 if named is None else None
    with sized([FINE, *refusals, FINE, FINE], context=context, summary=ModelUnavailable("Never asked.")) as model:
        one = await stage(model, tmp_path / "log.sqlite")
        await one.run("Hello.")
        failed = await one.run(LONG)
        if restarts:
            one.forget_history()
        after = await one.run("Say only: done.")
        again = await one.run("Again.")
        await one.close()
    assert failed.run.error is not None
    assert failed.run.error.message.endswith("The next prompts are sent without this one.")
    assert (after.text, again.text) == ("Fine.", "Fine.")
    assert model.summary_requests == []
    assert [message["content"] for message in sent(model)[1:]] == [
        "Hello.\n\n<notebook_context>\nNotebook: test.ipynb\n</notebook_context>",
        "Fine.",
        "Say only: done.\n\n<notebook_context>\nNotebook: test.ipynb\n</notebook_context>",
        "Fine.",
        "Again.\n\n<notebook_context>\nNotebook: test.ipynb\n</notebook_context>",
    ]
    assert shared(sent(model, -2), sent(model, -1)) == len(sent(model, -2))


@pytest.mark.parametrize(
    ("server", "setting"),
    [("llama.cpp", "llama-server with a larger -c"), (None, "choose a model with a larger context")],
)  # fmt: skip
@pytest.mark.parametrize("known", [True, False])
async def test_what_is_too_long_names_the_setting_of_the_server_at_hand(
    stages: Stages, server: LocalServer | None, setting: str, known: bool
) -> None:
    says = f"request (9000 tokens) exceeds the available context size ({CONTEXT} tokens), try increasing it"
    error = {"code": 400, "message": says, "type": "exceed_context_size_error", "n_prompt_tokens": 9_000}
    refusal = json_reply({"error": error | {"n_ctx": CONTEXT}}, status=400)
    async with FakeOpenAI([] if known else [refusal]) as service:
        capabilities = Capabilities(context_tokens=CONTEXT if known else None, server=server)
        model = model_at(service.url, capabilities=capabilities)
        result = await (await (await stages(model)).start(LONG)).wait()
        await model.aclose()
    assert result.run.error is not None
    for advice in ("%agent new", setting):
        assert advice in result.run.error.message


async def test_where_no_summary_can_be_written_older_messages_are_left_out_and_it_is_said(stages: Stages) -> None:
    with sized([*looks(35), say("Done.")], summary=ModelUnavailable("It is down.")) as model:
        stage = await stages(model, executor=seeing(600))
        result = await stage.run("Look.")
    assert result.text == "Done."
    [notice] = notices(stage)
    assert notice.content.startswith("Left out 42 older messages: no summary was written. ")
    assert "without a summary" in sent(model)[1]["content"]


async def test_a_summary_that_reaches_the_budget_pauses_the_run_before_the_next_request(stages: Stages) -> None:
    with sized([*looks(35), say("Done.")], recorded=True) as model:  # so that nothing is estimated
        stage = await stages(model, executor=seeing(600))
        handle = await stage.start("Look.", budget=BudgetLimits(tokens=1_050))
        paused = await stage.until(lambda: stage.of(RunEvent) and stage.of(RunEvent)[-1].run.paused)
        count = len(model.requests)
        assert len(model.summary_requests) == 1
        await stage.conversation.raise_budget(handle.run_id, paused.pause_id, BudgetLimits(tokens=10_000))
        assert (await handle.wait()).text == "Done."
    assert len(model.summary_requests) == 1
    assert count < len(model.requests)
