"""Endpoints as a configuration and an environment write them down, and what is said of one with a mistake in it."""

from typing import Any

import pytest

from agent_kernel.errors import ConfigurationError
from agent_kernel.models import prices
from agent_kernel.models.endpoints import BrokenEndpoint, Endpoint, configured
from agent_kernel.models.http import HttpModel
from agent_kernel.models.known import DEFAULT_MODELS, capabilities_by_name
from agent_kernel.models.resolver import ModelResolver
from agent_kernel.testing import FakeOpenAI, say
from tests.core.models.model_fixtures import turn_of

SECRET = "sk-ant-api03-Ab12Cd34Ef56Gh78"


def environ(**variables: str) -> ModelResolver:
    return ModelResolver(environ=variables)


def address(resolver: ModelResolver, name: str | None = None) -> str:
    model = resolver.resolve(name)
    assert isinstance(model, HttpModel)
    return repr(model)


@pytest.mark.parametrize(
    ("endpoint", "api"),
    [
        (Endpoint("openai", "https://api.openai.com/v1"), "responses"),
        (Endpoint("claude", "https://api.anthropic.com"), "messages"),
        (Endpoint("lab", "http://localhost:11434/v1"), "chat"),
        (Endpoint("lab", "http://localhost:8000/v1", api="responses"), "responses"),
        (Endpoint("old", "https://api.openai.com/v1", api="chat"), "chat"),
    ],
)
def test_an_endpoint_is_asked_in_the_api_of_its_address_unless_it_says_another(endpoint: Endpoint, api: str) -> None:
    assert endpoint.first_api == api


def test_an_anthropic_key_alone_is_enough() -> None:
    resolver = environ(ANTHROPIC_API_KEY=SECRET)
    assert address(resolver) == f"HttpModel('{DEFAULT_MODELS['Anthropic']}' at https://api.anthropic.com/v1)"
    assert resolver.default_reason == "ANTHROPIC_API_KEY is set, and nothing names a model."


def test_an_address_for_anthropics_api_is_asked_in_that_api_and_with_a_key_for_the_default_claude() -> None:
    assert environ(ANTHROPIC_BASE_URL="http://localhost:4000").default is None
    resolver = environ(ANTHROPIC_BASE_URL="http://localhost:4000", ANTHROPIC_API_KEY="anything")
    assert address(resolver) == f"HttpModel('{DEFAULT_MODELS['Anthropic']}' at http://localhost:4000/v1)"
    assert resolver.default_reason == "ANTHROPIC_API_KEY is set, and nothing names a model."
    endpoint = resolver.endpoints["anthropic"]
    assert isinstance(endpoint, Endpoint)
    assert endpoint.first_api == "messages"
    assert address(resolver, "some-model") == "HttpModel('some-model' at http://localhost:4000/v1)"


def test_with_both_keys_openai_comes_first_and_it_is_said_why() -> None:
    resolver = environ(OPENAI_API_KEY="sk-1", ANTHROPIC_API_KEY=SECRET)
    assert resolver.default == DEFAULT_MODELS["OpenAI"]
    assert "OpenAI comes first" in resolver.default_reason
    assert f"AGENT_KERNEL_MODEL={DEFAULT_MODELS['Anthropic']}" in resolver.default_reason
    assert "api.anthropic.com" in address(resolver, "claude-opus-5-5")
    assert "api.openai.com" in address(resolver, "gpt-6-luna")
    assert "api.anthropic.com" in address(resolver, "anthropic/claude-next")


@pytest.mark.parametrize(
    ("variables", "name", "said"),
    [
        ({"OPENAI_API_KEY": SECRET}, None, "OPENAI_API_KEY holds a key of Anthropic.*Set it as ANTHROPIC_API_KEY"),
        ({"ANTHROPIC_API_KEY": "sk-proj-Ab12"}, None, "holds a key of OpenAI.*Set it as OPENAI_API_KEY"),
    ],
)
async def test_a_key_for_another_provider_is_not_sent_and_named_without_being_shown(
    variables: dict[str, str], name: str | None, said: str
) -> None:
    model = environ(**variables).resolve(name)
    assert isinstance(model, HttpModel)
    with pytest.raises(ConfigurationError, match=said) as caught:
        await turn_of(model)
    assert "Ab12" not in str(caught.value)


async def test_a_key_that_is_set_later_is_used_by_the_next_run() -> None:
    variables = {"AGENT_KERNEL_MODEL": "m"}
    resolver = ModelResolver(environ=variables)
    async with FakeOpenAI([say("1"), say("2"), say("3")]) as server:
        variables["OPENAI_BASE_URL"] = server.url
        first = resolver.resolve()
        await turn_of(first)
        variables["OPENAI_API_KEY"] = "second-key"
        await turn_of(resolver.resolve())
        await turn_of(first)
        assert resolver.resolve() is resolver.resolve()
        await resolver.aclose()
    assert [one.headers["authorization"].split()[1] for one in server.requests] == [
        "no-key-needed",
        "second-key",
        "no-key-needed",  # a run that goes on keeps its address and its key: neither is combined with a later one
    ]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"base_url": "http://a/v1", "api": "soap"}, "its api must be one of chat, responses, messages."),
        (
            {"base_url": "http://a/v1", "timeout": 3},
            "there is no field 'timeout'. It takes api, api_key_env,",
        ),
        ({"api": "chat"}, "it has no base_url."),
        ({"base_url": "localhost:11434"}, "must begin with http:// or https://"),
        ({"base_url": "http://a/v1", "context_tokens": 0}, "context_tokens: "),
        ({"base_url": "http://a/v1", "images": "yes"}, "images: "),
        ("http://a/v1", "it must be a dictionary with a base_url"),
    ],
)
def test_a_mistake_in_one_endpoint_is_told_to_those_who_name_it_and_the_others_work(fields: Any, said: str) -> None:
    broken = configured("lab", fields)
    assert isinstance(broken, BrokenEndpoint)
    resolver = ModelResolver(environ={"OPENAI_API_KEY": "sk-1"}, endpoints=[broken])
    with pytest.raises(ConfigurationError) as caught:
        resolver.resolve("lab/qwen3")
    assert said in str(caught.value)
    assert "'lab'" in str(caught.value)
    assert "api.openai.com" in address(resolver)


def test_an_address_of_the_environment_that_is_none_is_told_to_runs() -> None:
    resolver = environ(OPENAI_BASE_URL="localhost:11434/v1")
    with pytest.raises(ConfigurationError, match="OPENAI_BASE_URL must begin with http"):
        resolver.resolve("qwen3")


def test_openais_names_at_other_addresses_are_whole() -> None:
    resolver = environ(OPENAI_BASE_URL="http://localhost:1234/v1")
    assert address(resolver, "openai/gpt-oss-20b").startswith("HttpModel('openai/gpt-oss-20b'")
    assert address(resolver, "openai/qwen3").startswith("HttpModel('qwen3'")
    assert address(environ(OPENAI_API_KEY="sk-1"), "openai/gpt-6-luna").startswith("HttpModel('gpt-6-luna'")


@pytest.mark.parametrize(
    "name",
    ["gpt-4o", "gpt-6.1-sol", "openai/gpt-5.6-terra", "o3", "claude-3-haiku", "claude-sonnet-5-5", "gemini-3.8-flash"],
)
def test_families_that_everybody_knows_take_images_and_tools(name: str) -> None:
    capabilities = capabilities_by_name(name, "http://localhost/v1")
    assert (capabilities.images, capabilities.tools) == (True, True)


def test_how_long_a_context_is_comes_from_the_makers_own_service_only() -> None:
    prices.load()  # as `warm_up` does

    assert capabilities_by_name(DEFAULT_MODELS["OpenAI"], "https://api.openai.com/v1").context_tokens == 1_050_000
    assert capabilities_by_name(DEFAULT_MODELS["Anthropic"], "https://api.anthropic.com").context_tokens == 1_000_000
    assert capabilities_by_name("gpt-oss-20b", "http://localhost:11434/v1").context_tokens is None


def test_the_default_models_are_names_that_the_providers_own_clients_know() -> None:
    from anthropic.types import model as anthropic_model
    from openai.types.shared import chat_model

    assert repr(DEFAULT_MODELS["OpenAI"]) in repr(chat_model.ChatModel)
    assert repr(DEFAULT_MODELS["Anthropic"]) in repr(anthropic_model.Model)
    from genai_prices.data_snapshot import get_snapshot

    for name in DEFAULT_MODELS.values():
        assert get_snapshot().find_provider_model(name, None, None, None)[1].context_window


def test_a_broken_table_of_prices_leaves_a_models_context_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise TypeError("the table is broken")

    prices.load()
    monkeypatch.setattr("genai_prices.data_snapshot.get_snapshot", fail)
    prices.listed_context.cache_clear()
    assert capabilities_by_name("gpt-5", "https://api.openai.com/v1").context_tokens is None
    prices.listed_context.cache_clear()
