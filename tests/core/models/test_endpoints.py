"""Endpoints as a configuration and an environment write them down, which model a name means, which key goes where."""

from typing import Any

import pytest

from agent_kernel.errors import ConfigurationError, ModelRefused, NoModelError
from agent_kernel.models.client import PLACEHOLDER_KEY
from agent_kernel.models.endpoints import Endpoint, configured
from agent_kernel.models.known import DEFAULT_MODELS
from agent_kernel.models.resolver import ModelResolver
from agent_kernel.testing import FakeOpenAI, ScriptedModel, VirtualClock, say
from agent_kernel.testing.wire.reply import failure
from tests.core.models.model_fixtures import turn_of

SECRET = "sk-ant-api03-Ab12Cd34Ef56Gh78"


OPENAIS = DEFAULT_MODELS["OpenAI"]
CLAUDE = DEFAULT_MODELS["Anthropic"]
LAB = "http://localhost:4000"
ANTHROPIC = {"ANTHROPIC_API_KEY": SECRET}
BOTH = {"OPENAI_API_KEY": "sk-1", **ANTHROPIC}


def environ(**variables: str) -> ModelResolver:
    return ModelResolver(environ=variables)


def asked(resolver: ModelResolver, name: str | None = None) -> str:
    """Which model is asked where."""
    return repr(resolver.resolve(name)).removeprefix("HttpModel(").removesuffix(")")


@pytest.mark.parametrize(
    ("variables", "name", "model"),
    [
        ({"OPENAI_API_KEY": "sk-1"}, None, f"'{OPENAIS}' at https://api.openai.com/v1"),
        (ANTHROPIC, None, f"'{CLAUDE}' at https://api.anthropic.com/v1"),
        ({"ANTHROPIC_BASE_URL": LAB, **ANTHROPIC}, None, f"'{CLAUDE}' at {LAB}/v1"),
        (BOTH, None, f"'{OPENAIS}' at https://api.openai.com/v1"),
        (BOTH, "claude-opus-5-5", "'claude-opus-5-5' at https://api.anthropic.com/v1"),
        (BOTH, "anthropic/claude-next", "'claude-next' at https://api.anthropic.com/v1"),
        # OpenAI's names at other addresses are whole.
        ({"OPENAI_BASE_URL": f"{LAB}/v1"}, "openai/gpt-oss-20b", f"'openai/gpt-oss-20b' at {LAB}/v1"),
        ({"OPENAI_BASE_URL": f"{LAB}/v1"}, "openai/qwen3", f"'qwen3' at {LAB}/v1"),
    ],
)
def test_what_is_set_says_which_model_is_asked_where(variables: dict[str, str], name: str | None, model: str) -> None:
    assert asked(environ(**variables), name) == model


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"OPENAI_API_KEY": SECRET}, "OPENAI_API_KEY holds a key of Anthropic.*Set it as ANTHROPIC_API_KEY"),
        ({"ANTHROPIC_API_KEY": "sk-proj-Ab12"}, "holds a key of OpenAI.*Set it as OPENAI_API_KEY"),
    ],
)
async def test_a_key_for_another_provider_is_not_sent_and_named_without_being_shown(
    variables: dict[str, str], said: str
) -> None:
    with pytest.raises(ConfigurationError, match=said) as caught:
        await turn_of(environ(**variables).resolve())
    assert "Ab12" not in str(caught.value)


async def test_a_key_that_is_set_later_is_used_by_the_next_run() -> None:
    variables = {"AGENT_KERNEL_MODEL": "m"}
    resolver = ModelResolver(environ=variables)
    async with FakeOpenAI([say("1"), say("2"), say("3")]) as server:
        variables["OPENAI_BASE_URL"] = server.url
        first = resolver.resolve()
        await turn_of(first)
        variables["OPENAI_API_KEY"] = "second"
        await turn_of(resolver.resolve())
        await turn_of(first)  # a run that goes on keeps its address and its key: neither is combined with a later one
        await resolver.aclose()
    sent = [one.headers["authorization"] for one in server.requests]
    assert sent == [f"Bearer {key}" for key in (PLACEHOLDER_KEY, "second", PLACEHOLDER_KEY)]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"base_url": "http://a/v1", "api": "soap"},
            "api: Input should be",
        ),
        (
            {"base_url": "http://a/v1", "timeout": 3},
            "timeout: Extra inputs are not permitted. Its fields are api, api_key_env,",
        ),
        ({"api": "chat"}, "base_url: Field required."),
        ({"base_url": "localhost:11434"}, "must begin with http:// or https://"),
    ],
)
def test_a_mistake_in_one_endpoint_is_told_to_those_who_name_it_and_the_others_work(fields: Any, said: str) -> None:
    resolver = ModelResolver(environ={"OPENAI_API_KEY": "sk-1"}, endpoints=[configured("lab", fields)])
    with pytest.raises(ConfigurationError, match="'lab'") as caught:
        resolver.resolve("lab/qwen3")
    assert said in str(caught.value)
    assert "api.openai.com" in asked(resolver)


def test_nothing_configured_says_how_to_configure_a_model() -> None:
    for name in (None, "", "gpt-5.2"):
        with pytest.raises(NoModelError, match="OPENAI_API_KEY"):
            environ().resolve(name)


async def test_a_key_goes_to_its_own_endpoint_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROQ_API_KEY", "groq-key")
    scripts = [say("1")], [say("2"), say("3")], [say("4")]
    async with FakeOpenAI(scripts[0]) as openai, FakeOpenAI(scripts[1]) as groq, FakeOpenAI(scripts[2]) as local:
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


def test_a_python_object_can_be_a_model() -> None:
    resolver = environ()
    first, second = ScriptedModel([]), ScriptedModel([])
    assert [resolver.register(one) for one in (first, second, first)] == ["scripted", "scripted#2", "scripted"]
    assert [resolver.resolve(name) for name in ("scripted", "scripted#2")] == [first, second]


LIST = {"/v1/models": {"data": [{"id": name} for name in ("qwen3:8b", "qwen3:32b", "gemma3:4b", "nomic-embed-text")]}}
NO_SUCH_MODEL = failure(404, "model 'qwen3' not found, try pulling it first")


async def test_an_unknown_model_names_those_that_are_near() -> None:
    async with FakeOpenAI([NO_SUCH_MODEL], pages=LIST) as server:
        resolver = ModelResolver(endpoints=[configured("lab", {"base_url": server.url})], clock=VirtualClock())
        with pytest.raises(ModelRefused) as caught:
            await turn_of(resolver.resolve("qwen3"))
        await resolver.aclose()
    assert "does not know the model 'qwen3' (404): model 'qwen3' not found, try pulling it first." in str(caught.value)
    assert "Near that: qwen3:8b, qwen3:32b. Name one with --model or AGENT_KERNEL_MODEL." in str(caught.value)
