"""Endpoints as a configuration and an environment write them down, which model a name means, which key goes where."""

import json
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.errors import ConfigurationError, ModelRefused, ModelUnavailable, NoModelError
from agent_kernel.models import prices
from agent_kernel.models.base import ModelRequest
from agent_kernel.models.client import PLACEHOLDER_KEY
from agent_kernel.models.endpoints import BrokenEndpoint, Endpoint, configured
from agent_kernel.models.http import HttpModel
from agent_kernel.models.known import DEFAULT_MODELS, capabilities_by_name, near
from agent_kernel.models.resolver import ModelResolver
from agent_kernel.models.service_faults import Asked, Fault, explain
from agent_kernel.testing import FakeOpenAI, ScriptedModel, VirtualClock, say
from agent_kernel.testing.wire.reply import failure
from tests.core.models.model_fixtures import collect, turn_of

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


def write_recording(path: Path, content: str = "Hello.") -> None:
    turn = {"kind": "turn", "prompt": "Hi", "after": "start", "answer": {"content": content}}
    path.write_text(f'{{"kind":"recording","version":2}}\n{json.dumps(turn)}\n')


def test_nothing_configured_says_how_to_configure_a_model() -> None:
    for name in (None, "", "gpt-5.2"):
        with pytest.raises(NoModelError, match="OPENAI_API_KEY"):
            environ().resolve(name)


def test_a_key_alone_means_openai_and_its_default_model() -> None:
    model = environ(OPENAI_API_KEY="sk-1").resolve()
    assert isinstance(model, HttpModel)
    assert repr(model) == "HttpModel('gpt-6.1-sol' at https://api.openai.com/v1)"


async def test_a_key_goes_to_its_own_endpoint_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROQ_API_KEY", "groq-key")
    async with (
        FakeOpenAI([say("1")]) as openai,
        FakeOpenAI([say("2"), say("3")]) as groq,
        FakeOpenAI([say("4")]) as local,
    ):
        resolver = ModelResolver(
            environ={"OPENAI_API_KEY": "openai-key", "OPENAI_BASE_URL": openai.url},
            endpoints=[
                Endpoint("groq", groq.url, api_key_env="GROQ_API_KEY", models=("llama*",)),
                Endpoint("local", local.url),
            ],
        )
        for name in ("gpt-5.2", "groq/llama-3", "llama-4", "local/meta/llama"):
            await turn_of(resolver.resolve(name))
        await resolver.aclose()
    sent = [[request.headers["authorization"] for request in server.requests] for server in (openai, groq, local)]
    assert sent == [["Bearer openai-key"], ["Bearer groq-key"] * 2, [f"Bearer {PLACEHOLDER_KEY}"]]
    assert [request.body["model"] for request in groq.requests] == ["llama-3", "llama-4"]
    assert local.requests[0].body["model"] == "meta/llama"


def test_an_ambiguous_name_asks_for_the_endpoint() -> None:
    resolver = ModelResolver(endpoints=[Endpoint("a", "http://a/v1"), Endpoint("b", "http://b/v1")])
    with pytest.raises(ConfigurationError, match="Say which one serves it: a/m, b/m"):
        resolver.resolve("m")


async def test_a_recording_that_was_written_again_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    resolver = ModelResolver(base_directory=tmp_path)
    write_recording(path)
    first = resolver.resolve("replay:mine.jsonl")
    assert resolver.resolve("replay:mine.jsonl") is first
    before = path.stat()
    write_recording(path, "Changed.")
    if path.stat().st_mtime_ns == before.st_mtime_ns:
        pytest.skip("the file system's clock is too coarse to tell")
    second = resolver.resolve("replay:mine.jsonl")
    assert (await turn_of(second, ModelRequest([{"role": "user", "content": "Hi"}]))).content == "Changed."


@pytest.mark.parametrize("path", ["../secret.jsonl", "/etc/hostname", "https://example.org/a.json", "link.jsonl", " "])
def test_a_recording_outside_the_servers_directory_is_refused(tmp_path: Path, path: str) -> None:
    base = tmp_path / "base"
    base.mkdir()
    write_recording(tmp_path / "secret.jsonl")
    (base / "link.jsonl").symlink_to(tmp_path / "secret.jsonl")
    with pytest.raises(ConfigurationError, match=r"inside the server's directory|not an address"):
        ModelResolver(base_directory=base).resolve(f"replay:{path}")


def test_a_python_object_can_be_a_model() -> None:
    resolver = environ()
    first, second = ScriptedModel([]), ScriptedModel([])
    assert resolver.register(first) == "scripted"
    assert resolver.register(second) == "scripted#2"
    assert resolver.register(first) == "scripted"
    assert resolver.resolve("scripted") is first
    assert resolver.resolve("scripted#2") is second


TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
REQUEST = ModelRequest(messages=({"role": "user", "content": "Hi"},), tools=(TOOL,))
LIST = {"/v1/models": {"data": [{"id": name} for name in ("qwen3:8b", "qwen3:32b", "gemma3:4b", "nomic-embed-text")]}}
NO_SUCH_MODEL = failure(404, "model 'qwen3' not found, try pulling it first")


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("qwen3", ["qwen3:32b", "qwen3:8b"]),
        ("Qwen3:8B", ["qwen3:8b", "qwen3:32b"]),
        ("gema3:4b", ["gemma3:4b"]),
        ("qwen3:8b", []),
        ("claude-sonnet-5-5", []),
        ("", ["gemma3:4b", "qwen3:32b", "qwen3:8b"]),
    ],
)
def test_names_that_are_near_one(wanted: str, found: list[str]) -> None:
    assert near(wanted, ["qwen3:8b", "qwen3:32b", "gemma3:4b"]) == found


async def test_an_unknown_model_names_those_that_are_near() -> None:
    async with FakeOpenAI([NO_SUCH_MODEL], pages=LIST) as server:
        resolver = ModelResolver(endpoints=[configured("lab", {"base_url": server.url})], clock=VirtualClock())
        with pytest.raises(ModelRefused) as caught:
            await collect(resolver.resolve("qwen3"), REQUEST)
        await resolver.aclose()
    assert "does not know the model 'qwen3' (404): model 'qwen3' not found, try pulling it first." in str(caught.value)
    assert "Near that: qwen3:32b, qwen3:8b. Name one with --model or AGENT_KERNEL_MODEL." in str(caught.value)


async def test_a_name_that_no_endpoint_lists_is_answered_with_those_that_were_heard_of() -> None:
    async with FakeOpenAI(pages=LIST) as server:
        endpoints = [configured(name, {"base_url": server.url, "models": ["x"]}) for name in ("lab", "cloud")]
        resolver = ModelResolver(endpoints=endpoints)
        with pytest.raises(ConfigurationError, match=r"Say which one serves it: lab/qwen3, cloud/qwen3\."):
            resolver.resolve("qwen3")
        await resolver.listed()
        with pytest.raises(ConfigurationError, match=r"Near that: cloud/qwen3:32b, cloud/qwen3:8b, lab/qwen3:32b"):
            resolver.resolve("qwen3")
        await resolver.aclose()


def test_a_hosted_service_that_cant_be_reached_asks_about_the_network() -> None:
    asked = Asked(Endpoint("openai", "https://api.openai.com/v1"), "gpt-6.1-sol")
    error = explain(Fault("connection", "no route"), asked, tries=4)
    assert isinstance(error, ModelUnavailable)
    assert str(error) == (
        "https://api.openai.com/v1 can't be reached after 4 tries: no route. Is this machine online, and may it reach "
        "that address? OPENAI_BASE_URL sets the address. `agent-kernel doctor` asks it, and says what is wrong."
    )
