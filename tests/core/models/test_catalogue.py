"""What the endpoints offer, as they say it themselves, however they say it."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from agent_kernel.models.endpoints import Endpoint, configured
from agent_kernel.models.resolver import ModelResolver
from agent_kernel.protocol.lists import EndpointView
from agent_kernel.protocol.vocabulary import BudgetLimits
from agent_kernel.testing import FakeOpenAI, say
from agent_kernel.testing.fake_service import Page
from agent_kernel.testing.wire.reply import Reply, failure
from tests.core.runtime.runtime_fixtures import Stages
from tests.waiting import until

Told = tuple[bool | None, bool | None, int | None]
"""Tools, images, context."""


def listing(*rows: dict[str, Any]) -> dict[str, Any]:
    return {"object": "list", "data": list(rows)}


def show(body: dict[str, Any]) -> Any:
    shown = {
        "qwen3:8b": {
            "capabilities": ["completion", "tools", "thinking"],
            "parameters": 'temperature 0.6\nnum_ctx                        8192\nstop "<|im_start|>"',
            "model_info": {"qwen3.context_length": 40_960},
        },
        "gemma3:4b": {"capabilities": ["completion", "vision"], "model_info": {"gemma3.context_length": 131_072}},
    }
    return shown[body["model"]]


VLLM_LIST = listing({"id": "Qwen/Qwen3-8B", "owned_by": "vllm", "max_model_len": 40_960})
OLLAMA: dict[str, Page] = {
    "/v1/models": listing(*({"id": name, "owned_by": "library"} for name in ("qwen3:8b", "gemma3:4b"))),
    "/api/tags": {"models": [{"name": "qwen3:8b"}, {"name": "gemma3:4b", "remote_host": "https://ollama.com:443"}]},
    "/api/ps": {"models": [{"model": "gemma3:4b", "context_length": 4_096}]},
    "/api/show": show,
}
OLDER_LLAMA_CPP_LIST = listing({"id": "small.gguf", "owned_by": "llamacpp", "meta": {"n_ctx_train": 32_768}})
LLAMA_CPP: dict[str, Page] = {
    "/v1/models": {
        "models": [{"name": "small.gguf", "model": "small.gguf", "capabilities": ["completion"]}],
        **listing({"id": "small.gguf", "owned_by": "llamacpp", "meta": {"n_ctx": 8_192, "n_ctx_train": 32_768}}),
    },
    "/props": {
        "default_generation_settings": {"n_ctx": 4_096},
        "chat_template_caps": {"supports_tools": False, "supports_tool_calls": False},
    },
}
GEMMA = {"id": "google/gemma-3-4b", "type": "vlm", "state": "loaded", "capabilities": ["tool_use"]}
STUDIO: dict[str, Page] = {
    "/v1/models": listing({"id": "google/gemma-3-4b", "owned_by": "organization_owner"}),
    "/api/v0/models": listing(
        GEMMA | {"max_context_length": 131_072, "loaded_context_length": 4_096},
        {"id": "phi-4", "type": "llm", "state": "not-loaded", "max_context_length": 16_384},
        {"id": "nomic", "type": "embeddings", "state": "not-loaded"},
    ),
}
CLAUDE = {"image_input": {"supported": True}, "thinking": {"supported": True}}
LISTS: dict[str, tuple[dict[str, Any], dict[str, Told]]] = {
    "OpenAI": (
        listing(*({"id": one} for one in ("gpt-6.1-sol", "text-embedding-3-small", "whisper-1", "tts-1", "mine"))),
        {"gpt-6.1-sol": (True, True, None), "mine": (None, None, None)},
    ),
    "Anthropic": (
        listing(
            {"id": "claude-5", "lifecycle": "active", "max_input_tokens": 1_000_000, "capabilities": CLAUDE},
            {"id": "claude-2", "lifecycle": "retired"},
        ),
        {"claude-5": (True, True, 1_000_000)},
    ),
    "OpenRouter": (
        listing(
            {
                "id": "qwen/qwen3-vl",
                "context_length": 262_144,
                "architecture": {"input_modalities": ["text", "image"], "output_modalities": ["text"]},
                "supported_parameters": ["tools", "temperature"],
                "top_provider": {"context_length": 131_072},
            },
            {"id": "some/painter", "architecture": {"output_modalities": ["image"]}},
        ),
        {"qwen/qwen3-vl": (True, True, 131_072)},
    ),
    "vLLM": (VLLM_LIST, {"Qwen/Qwen3-8B": (True, None, 40_960)}),
    "Mistral": (
        listing(
            {"id": "m", "max_context_length": 131_072, "capabilities": {"vision": False, "function_calling": True}}
        ),
        {"m": (True, False, 131_072)},
    ),
}
SERVICES: dict[str, tuple[Mapping[str, Page], dict[str, Told]]] = {
    **{name: ({"/v1/models": rows}, said) for name, (rows, said) in LISTS.items()},
    "LM Studio": (STUDIO, {"google/gemma-3-4b": (True, True, 4_096), "phi-4": (None, False, None)}),
    "llama.cpp": (LLAMA_CPP, {"small.gguf": (False, None, 8_192)}),
    "older llama.cpp": (LLAMA_CPP | {"/v1/models": OLDER_LLAMA_CPP_LIST}, {"small.gguf": (False, None, 4_096)}),
    "not llama.cpp": (
        {"/v1/models": OLDER_LLAMA_CPP_LIST, "/props": failure(501)},
        {"small.gguf": (None, None, None)},
    ),
    "Ollama": (OLLAMA, {"qwen3:8b": (True, False, 8_192), "gemma3:4b": (False, True, 4_096)}),
}


async def listed(pages: Mapping[str, Page]) -> EndpointView:
    async with FakeOpenAI(pages=pages) as server:
        return (await views_of(configured("lab", {"base_url": server.url})))["lab"]


def told(view: EndpointView) -> dict[str, Told]:
    assert view.error == ""
    return {model.name: (model.tools, model.images, model.context_tokens) for model in view.models}


@pytest.mark.parametrize(("pages", "said"), SERVICES.values(), ids=SERVICES)
async def test_each_service_is_understood(pages: Mapping[str, Page], said: dict[str, Told]) -> None:
    assert told(await listed(pages)) == said


async def views_of(*endpoints: Any, environ: Mapping[str, str] | None = None) -> dict[str, EndpointView]:
    resolver = ModelResolver(endpoints=endpoints, environ=environ or {})
    try:
        return {view.name: view for view in (await resolver.listed()).endpoints}
    finally:
        await resolver.aclose()


async def test_an_endpoint_that_fails_is_a_line_that_says_why_and_the_others_are_listed() -> None:
    refused = failure(401, "Incorrect API key: sk-secret-0123456789")
    async with FakeOpenAI(pages={"/v1/models": refused}) as strict, FakeOpenAI(pages={"/v1/models": VLLM_LIST}) as good:
        views = await views_of(
            configured("strict", {"base_url": strict.url}),
            configured("broken", {"base_url": good.url, "api": "soap"}),
            configured("gone", {"base_url": "http://127.0.0.1:9/v1"}),
            configured("good", {"base_url": good.url, "models": ["Qwen/*"]}),
        )
    assert "refused the API key (401)" in views["strict"].error
    assert "secret" not in views["strict"].error
    assert "api: Input should be" in views["broken"].error
    assert "can't be reached" in views["gone"].error
    assert [model.name for model in views["good"].models] == ["Qwen/Qwen3-8B"]


def as_json(body: bytes) -> Reply:
    return Reply(body=body, content_type="application/json")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (failure(404), "it has no list of models (404)"),
        (as_json(b'{"data": [7, {"id": 7}, {"id": "x y"}, {}]}'), ""),
        (as_json(b"[" * (9 << 20)), "longer than"),
        (Reply(hang_after=0), "did not answer within 0.5 s"),
    ],
)
async def test_nonsense_or_silence_in_place_of_a_list_is_said_or_passed_over(
    answer: Reply, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if said.startswith("did not answer"):
        monkeypatch.setattr("agent_kernel.models.catalogue.ANSWER_SECONDS", 0.5)
    view = await listed({"/v1/models": answer})
    assert view.models == []
    assert said in view.error
    assert bool(view.error) == bool(said)


MIXED = {"data": [*OLDER_LLAMA_CPP_LIST["data"], {"id": "gpt-5", "owned_by": "openai"}]}


@pytest.mark.parametrize(
    ("pages", "name", "server"),
    [
        (OLLAMA, "qwen3:8b", "Ollama"),
        (OLLAMA, "gpt-oss:120b-cloud", None),  # so does this one, which was never pulled
        ({"/v1/models": VLLM_LIST}, "Qwen/Qwen3-8B", None),  # a proxy that passes on the list of vLLM elsewhere
        (LLAMA_CPP | {"/v1/models": MIXED}, "small.gguf", None),
    ],
)
async def test_a_budget_in_dollars_holds_at_this_machine_but_for_a_model_that_is_known_to_run_on_it(
    pages: Mapping[str, Page], name: str, server: str | None, stages: Stages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent_kernel.models.catalogue.LEARN_SECONDS", 60)
    monkeypatch.setattr("agent_kernel.models.catalogue.ANSWER_SECONDS", 60)
    async with FakeOpenAI([say("Done.", usage=(1_000, 100))] if server else [], pages=pages) as service:
        resolver = ModelResolver(environ={"OPENAI_BASE_URL": service.url})
        stage = await stages(resolver.resolve(name), attended=False)
        result = await stage.run(budget=BudgetLimits(usd=0.01))
        await resolver.aclose()
    if server is None:
        assert result.run.error.message.startswith(f"No price is known for {name}, so the budget of $0.01 can't be")
    assert (result.text, result.run.usage.cost) == ("Done." if server else "", None)


async def test_the_key_goes_to_the_endpoints_own_lists_and_a_redirect_is_not_followed() -> None:
    async with FakeOpenAI(pages={"/v1/models": VLLM_LIST}) as elsewhere:
        moved = Reply(status=307, headers={"location": f"{elsewhere.url}/models"})
        async with FakeOpenAI(pages={"/v1/models": moved}) as server:
            view = (await views_of(Endpoint("lab", server.url, api_key=lambda: "lab-key-0123")))["lab"]
    assert "redirects elsewhere" in view.error
    assert elsewhere.asked == []
    assert server.asked[0].headers["authorization"] == "Bearer lab-key-0123"
    assert "lab-key" not in json.dumps(view.model_dump())


async def test_the_context_of_a_model_that_is_loaded_by_its_first_turn_is_known_from_the_next_one_on(
    stages: Stages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent_kernel.models.catalogue.LEARN_SECONDS", 60)
    gemma = {"model": "gemma3:4b", "context_length": 4_096}
    pages = OLLAMA | {"/api/ps": lambda _: {"models": [gemma] if service.requests else []}}
    async with FakeOpenAI([say("Done.")], pages=pages) as service:
        resolver = ModelResolver(environ={"OPENAI_BASE_URL": service.url})
        model = resolver.resolve("gemma3:4b")
        stage = await stages(model)
        assert (await stage.run()).text == "Done."
        await until(lambda: model.facts.context_tokens == gemma["context_length"])
        await resolver.aclose()
