"""The table of providers in docs/models.md, each of its lines tried against the doubles."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from agent_kernel.models.known import DEFAULT_MODELS
from agent_kernel.models.resolver import ModelResolver
from agent_kernel.testing import say
from tests.core.models.model_apis import BY_NAME
from tests.core.models.model_fixtures import turn_of

PAGE = (Path(__file__).parents[3] / "docs" / "models.md").read_text(encoding="utf-8")
SETTING = re.compile(r"\b([A-Z][A-Z_]+)=([^\s`]+)")
PATHS = {"responses": "/v1/responses", "chat": "/v1/chat/completions", "messages": "/v1/messages"}


def providers() -> dict[str, dict[str, str]]:
    """Each provider with what its two lines tell to set where Jupyter is started."""
    table = PAGE.partition("| provider |")[2].partition("\n\n")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]
    found: dict[str, dict[str, str]] = {}
    for (name, settings), (nothing, choice) in zip(rows[::2], rows[1::2], strict=True):
        assert nothing == "", f"the second line of {name} names another provider"
        named = dict(SETTING.findall(settings)) | dict(SETTING.findall(choice))
        found[name] = {key: "a-key" if value == "..." else value for key, value in named.items() if "OLLAMA" not in key}
    return found


def test_the_table_has_the_providers_that_people_use() -> None:
    hosted = {"OpenAI", "Anthropic", "Gemini", "OpenRouter", "DeepSeek", "Kimi", "Mistral"}
    assert set(providers()) >= hosted | {"Ollama", "llama.cpp", "vLLM", "LM Studio", "LiteLLM"}


@pytest.mark.parametrize("provider", list(providers()))
async def test_what_the_table_says_is_enough_for_a_turn(provider: str) -> None:
    resolver = ModelResolver(environ=providers()[provider])
    assert resolver.default is not None, "nothing says which model is asked"
    endpoint = resolver.endpoint_of(resolver.default)
    model = resolver.resolve()
    async with BY_NAME[endpoint.first_api].service([say("Hi")]) as double:
        # The same endpoint at the double's address, which is nobody's home: so it says which API it is asked in.
        moved = replace(endpoint, name="moved", base_url=double.url, api=endpoint.first_api, ambient=False)
        there = ModelResolver(endpoints=[moved])
        assert (await turn_of(there.resolve(f"moved/{model.facts.wire_name}"))).content == "Hi"
        await there.aclose()
    assert double.requests[0].path == PATHS[endpoint.first_api]
    assert double.requests[0].body["model"] == model.facts.wire_name
    if "OPENAI_API_KEY" in providers()[provider] or "ANTHROPIC_API_KEY" in providers()[provider]:
        assert double.requests[0].headers["authorization"] == "Bearer a-key"


def test_the_default_models_in_the_table_are_those_that_are_asked() -> None:
    for name in DEFAULT_MODELS.values():
        assert f"`{name}` is asked by default" in PAGE
