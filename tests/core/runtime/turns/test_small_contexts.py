"""A local model with a small context gets fewer words and tools, and requests that its server's cache knows."""

import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.models.base import ModelFacts
from agent_kernel.models.resolver import ModelResolver
from agent_kernel.protocol.decisions import ScriptedDecision
from agent_kernel.protocol.kernel import CELLS_OPEN
from agent_kernel.record import render_record
from agent_kernel.runtime.state.transcript import LEAN_CONTEXT, LEAN_SYSTEM_PROMPT, SYSTEM_PROMPT
from agent_kernel.testing import FakeOpenAI, call, say
from agent_kernel.testing.fake_service import Page
from agent_kernel.tools.builtin.declarations import BUILTIN_TOOLS
from tests.core.models.model_apis import WireApi, each_api
from tests.core.models.model_fixtures import connected
from tests.core.record.record_examples import bare
from tests.core.runtime.runtime_fixtures import FunctionExecutor, Stages, second_life

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


@pytest.mark.parametrize("context", [2_048, LEAN_CONTEXT, LEAN_CONTEXT + 1])
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


@pytest.mark.parametrize("contexts", [(4_096, None), (None, 4_096)])
async def test_a_run_keeps_what_it_began_with_when_the_context_is_known_otherwise(
    stages: Stages, tmp_path: Path, contexts: tuple[int | None, int | None]
) -> None:
    first, second = (ModelFacts(context_tokens=context) for context in contexts)
    asks = [call("run_python", call_id="a", code="1")]
    before = await stages(asks, facts=first, path=tmp_path / "log.sqlite")
    await before.asking(tools=BUILTIN_TOOLS)
    async with second_life(before, say("Done."), facts=second) as again:
        await again.approve()
        result = await again.handles[0].wait()
    assert result.run.lean is (contexts[0] is not None)
    [asked], [later] = before.model.requests, again.model.requests
    assert (later.messages[: len(asked.messages)], later.tools) == (asked.messages, asked.tools)


async def test_a_small_context_is_told_of_the_last_cell_alone(stages: Stages) -> None:
    cells = "\n".join(f"[{number}] cell:c{number}\n" + "x = 1\n" * 400 for number in range(1, 6))
    told = f"Notebook: test.ipynb\n\n{CELLS_OPEN}{cells}  failed: KeyError: 'pric'"
    for context in (LEAN_CONTEXT, 4 * LEAN_CONTEXT):
        executor, facts = FunctionExecutor(environment=told), ModelFacts(context_tokens=context)
        stage = await stages([say("Done.")], facts=facts, executor=executor)
        await stage.run()
        asked = str(stage.model.requests[0].messages[-1]["content"])
        assert asked.count("KeyError: 'pric'") == 1
        assert (len(asked) < 4_500) == (context == LEAN_CONTEXT)


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
