"""Which model a name means, and which key goes where."""

import json
from pathlib import Path

import pytest

from agent_kernel.errors import ConfigurationError, NoModelError
from agent_kernel.models.base import ModelRequest
from agent_kernel.models.client import PLACEHOLDER_KEY
from agent_kernel.models.endpoints import Endpoint
from agent_kernel.models.http import HttpModel
from agent_kernel.models.resolver import ModelResolver
from agent_kernel.testing import FakeOpenAI, ScriptedModel, say
from tests.core.models.model_fixtures import turn_of


def environ(**variables: str) -> ModelResolver:
    return ModelResolver(environ=variables)


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
