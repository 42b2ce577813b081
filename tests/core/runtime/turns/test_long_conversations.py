"""A conversation that outgrows its model's context goes on, and nothing of it is lost. A local model with a small
context gets fewer words and tools, and requests that its server's cache knows."""

import itertools
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from agent_kernel.errors import ContextExceeded, ModelUnavailable
from agent_kernel.models.base import Model, ModelFacts, ModelRequest, ModelTurn
from agent_kernel.models.resolver import ModelResolver
from agent_kernel.protocol.decisions import ScriptedDecision
from agent_kernel.protocol.events import TokenEvent
from agent_kernel.protocol.run_results import RunResult
from agent_kernel.protocol.views import NoticeView
from agent_kernel.record import render_record
from agent_kernel.runtime.state.compaction import tokens_of
from agent_kernel.runtime.state.transcript import LEAN_CONTEXT, LEAN_SYSTEM_PROMPT, SYSTEM_PROMPT
from agent_kernel.testing import FakeOpenAI, ScriptedModel, call, say
from agent_kernel.testing.fake_service import Page
from agent_kernel.testing.scripted_model import ScriptedTurn
from agent_kernel.testing.wire.messages import refusal as refused
from agent_kernel.tools.builtin.declarations import BUILTIN_TOOLS
from tests.core.models.model_apis import WireApi, each_api
from tests.core.models.model_fixtures import connected, speaking
from tests.core.record.record_examples import bare
from tests.core.runtime.runtime_fixtures import FunctionExecutor, Stage, Stages, run_view

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


async def looked(stages: Stages, model: Model, characters: int, prompt: str = "Look.") -> tuple[Stage, RunResult]:
    """A run whose calls show so many characters each, and its answer."""
    stage = await stages(model, executor=FunctionExecutor(lambda call, emit: "x" * characters))
    result = await stage.run(prompt)
    assert result.text == "Done."
    return stage, result


def looks(count: int) -> list[ModelTurn]:
    return [call("look", call_id=f"c{number}") for number in range(count)]


def notices(stage: Stage) -> list[NoticeView]:
    return run_view(stage).notices


def sent(model: ScriptedModel, number: int = -1) -> list[dict[str, Any]]:
    return list(model.requests[number].messages)


async def test_the_oldest_results_are_shortened_before_the_context_is_full(stages: Stages) -> None:
    with sized([*looks(9), say("Done.")]) as model:
        stage, result = await looked(stages, model, 3_000)
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
        stage, result = await looked(stages, model, 600)
    [asked] = model.summary_requests
    assert list(asked.tools) == []
    assert "User (stays as it is): Look." in asked.messages[1]["content"]
    assert "Call: look {}\n\nResult: xxx" in asked.messages[1]["content"]
    [notice] = notices(stage)
    assert (notice.content, notice.detail) == ("Summarised 42 messages", SUMMARY)
    prompt = sent(model)[1]
    assert (prompt["role"], prompt["content"][:5]) == ("user", "Look.")
    assert "written by the model" in prompt["content"]
    assert SUMMARY in prompt["content"]
    assert all(tokens(request) <= 0.8 * CONTEXT for request in model.requests)
    usage = result.run.usage
    assert (usage.input_tokens, usage.output_tokens, usage.steps, len(result.messages)) == (1_000, 50, 36, 72)
    assert not [event for event in stage.of(TokenEvent) if SUMMARY[:20] in event.content]


async def test_anthropics_service_takes_the_shortened_conversation_without_the_thoughts_of_before(
    stages: Stages,
) -> None:
    """A thought is bound to what was said before it, to the letter."""
    thoughtful = [replace(one, reasoning=f"Hm {number}.") for number, one in enumerate(looks(42))]
    refusal = refused(400, "invalid_request_error", "prompt is too long: 9000 tokens > 8192 maximum")
    async with speaking(*thoughtful[:40], refusal, say(SUMMARY), *thoughtful[40:], say("Done.")) as (server, model):
        stage, _ = await looked(stages, model, 700)
    assert [one.content.split()[0] for one in notices(stage)] == ["Summarised"]
    assert "tools" not in server.requests[41].body
    thoughts = [str(request.body["messages"]).count("'thinking': 'Hm ") for request in server.requests]
    assert thoughts[38:] == [38, 39, 40, 0, 0, 1, 2]


FINE, LONG = say("Fine."), "Look. " * 5_000


@pytest.mark.parametrize("named", [True, None], ids=["its limit named", "known before"])
@pytest.mark.parametrize("restarts", [False, True])
async def test_a_prompt_that_is_too_long_is_left_out_of_later_requests(
    stages: Stages, named: bool | None, restarts: bool
) -> None:
    refusal = ContextExceeded("Too long.", size=9_000 if named else None, limit=8_192 if named else None)
    refusals = [] if named is None else [refusal]
    context = 4_096 if named is None else None
    with sized([FINE, *refusals, FINE, FINE], context=context, summary=ModelUnavailable("Never asked.")) as model:
        one = await stages(model)
        await one.run("Hello.")
        failed = await one.run(LONG)
        if restarts:
            one.forget_history()
        assert [(await one.run(prompt)).text for prompt in ("Say only: done.", "Again.")] == ["Fine.", "Fine."]
    assert failed.run.error is not None
    assert failed.run.error.message.endswith("The next prompts are sent without this one.")
    assert model.summary_requests == []
    said = [message["content"].split("\n")[0] for message in sent(model)[1:]]
    assert said == ["Hello.", "Fine.", "Say only: done.", "Fine.", "Again."]
    assert sent(model)[: len(sent(model, -2))] == sent(model, -2)


MOST_CHARACTERS = 2_500
"""Of the system prompt and the tools as JSON. By Qwen's tokenizer and template 2,018 of them are 613 tokens, so that
these are fewer than the 900 that such a context can spare."""
LEAN = ["run_python", "inspect_variables", "list_files", "read_file", "ask_user"]
WORDS = "small.gguf · fewer words and tools for its small context"


def llama_cpp(context: int) -> Mapping[str, Page]:
    row = {"id": "small.gguf", "owned_by": "llamacpp", "meta": {"n_ctx": context, "n_ctx_train": 131_072}}
    return {"/v1/models": {"data": [row]}, "/props": {"default_generation_settings": {"n_ctx": context}}}


def names(body: Mapping[str, Any]) -> list[str]:
    return [tool["function"]["name"] for tool in body["tools"]]


@pytest.mark.parametrize("context", [LEAN_CONTEXT, LEAN_CONTEXT + 1])
async def test_a_model_with_a_small_context_gets_fewer_words_and_tools_and_the_run_says_so(
    context: int, stages: Stages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent_kernel.models.catalogue.LEARN_SECONDS", 60)
    async with FakeOpenAI([say("Done.")], pages=llama_cpp(context)) as service:
        resolver = ModelResolver(environ={"OPENAI_BASE_URL": service.url})
        stage = await stages(resolver.resolve("small.gguf"))
        result = await stage.run(tools=BUILTIN_TOOLS)
        await resolver.aclose()
    [request] = service.requests
    system = request.body["messages"][0]["content"]
    record = bare(render_record(result.run, result.messages, result.tool_calls)["text/html"])
    small = context <= LEAN_CONTEXT
    assert (result.run.lean, WORDS in record) == (small, small)
    assert system == (LEAN_SYSTEM_PROMPT if small else SYSTEM_PROMPT)
    assert names(request.body) == (LEAN if small else [tool.name for tool in BUILTIN_TOOLS])
    assert (len(system) + len(json.dumps(request.body["tools"])) <= MOST_CHARACTERS) == small


@each_api
async def test_each_request_begins_with_the_last_one(api: WireApi, stages: Stages) -> None:
    """So that a server has its work on that part cached."""
    script = [call("look", call_id="a"), call("run_python", call_id="b", code="1"), say("Denied.")]
    script += [call("look", call_id="c"), call("run_python", call_id="d", code="2"), say("Done."), say("Bye.")]
    async with connected(*script, api=api) as (service, model):
        stage = await stages(model)
        for number, prompt in enumerate(("Look.", "Again.", "Thanks.")):
            stage.executor.environment = f"Notebook: test.ipynb, cell {number}"
            decision = ScriptedDecision(approved=number == 1, reason="No.", tool_name="run_python")
            await stage.run(prompt, script=(decision,))
    field = "input" if api.name == "responses" else "messages"
    bodies = [without_marks(request.body) for request in service.requests]
    for earlier, later in itertools.pairwise(bodies):
        assert later | {field: later[field][: len(earlier[field])]} == earlier


def without_marks(value: Any) -> Any:
    """The body without Anthropic's marks of what to cache, which move on with the conversation."""
    if isinstance(value, dict):
        return {key: without_marks(inner) for key, inner in value.items() if key != "cache_control"}
    return [without_marks(inner) for inner in value] if isinstance(value, list) else value
