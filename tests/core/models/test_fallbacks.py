"""A service that refuses a request in one way is asked in another, once; one that is too long is told from others."""

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from agent_kernel.errors import ContextExceeded, ModelRefused
from agent_kernel.models.base import ModelItem, ModelRequest, ModelTurn, Notice, facts_of
from agent_kernel.models.endpoints import configured
from agent_kernel.models.fallbacks import Amendment, Fallbacks, other_api
from agent_kernel.models.http import MOST_AMENDMENTS, HttpModel
from agent_kernel.models.known import Capabilities
from agent_kernel.models.length import TooLong, too_long
from agent_kernel.models.resolver import ModelResolver
from agent_kernel.models.service_faults import Fault
from agent_kernel.protocol.vocabulary import ApiName
from agent_kernel.testing import FakeOpenAI, VirtualClock, say
from agent_kernel.testing.fake_service import Page
from agent_kernel.testing.wire.reply import Reply, failure, json_reply
from tests.core.models.model_apis import BY_NAME
from tests.core.models.model_fixtures import collect, connected, model_at, turn_of
from tests.core.models.test_faults import NGINX
from tests.core.models.test_images import DATA, REF, URL

TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
REQUEST = ModelRequest(messages=({"role": "user", "content": "Hi"},), tools=(TOOL,))
CHAT, RESPONSES = "/v1/chat/completions", "/v1/responses"
USE_RESPONSES = (
    "Function tools with reasoning_effort are not supported for gpt-6-sol in /v1/chat/completions. "
    "To use function tools, use /v1/responses or set reasoning_effort to 'none'."
)
LITELLM = (
    "litellm.NotFoundError: NotFoundError: Hosted_vllmException - Error code: 404 - {'detail': 'Not Found'}. Received "
    "Model Group=fake\nAvailable Model Group Fallbacks=None"
)


def refusal(message: str, status: int = 400, **fields: Any) -> Reply:
    return json_reply({"error": {"message": message, "type": "invalid_request_error", **fields}}, status=status)


def notices(items: Sequence[ModelItem]) -> list[str]:
    return [item.content for item in items if isinstance(item, Notice)]


def fault(message: str, status: int | None = 400, code: str = "") -> Fault:
    return Fault("status", message, status=status, code=code)


@pytest.mark.parametrize(
    ("said", "api", "other"),
    [
        (fault(USE_RESPONSES), "chat", "responses"),
        (fault("fake is not supported with the Responses API. Use Chat Completions API."), "responses", "chat"),
        (fault("Not Found", 404), "responses", "chat"),
        (fault("Not found", 404, "not_found_error"), "chat", "messages"),
        (fault(LITELLM, 404), "messages", "chat"),
        (fault("The model `fake` does not exist", 404, "model_not_found"), "responses", None),
        (fault("Not Found", 404), "chat", None),
    ],
)
def test_an_error_that_names_the_other_api_is_understood(said: Fault, api: ApiName, other: ApiName | None) -> None:
    assert other_api(said, api, "fake") == other


@pytest.mark.parametrize(
    "message",
    [
        "registry.ollama.ai/library/gemma3:4b does not support tools",
        "No endpoints found that support tool use. To learn more about provider routing, lease: https://openrouter.ai",
        "tools param requires --jinja flag",
    ],
)
async def test_a_model_that_knows_no_tools_answers_without_them_and_each_run_says_so(message: str) -> None:
    pages: dict[str, Page] = {"/v1/models": {"data": [{"id": one} for one in ("fake", "qwen3", "gemma3", "llama3.1")]}}
    async with FakeOpenAI([refusal(message, 404), say("Hi"), say("Hi again")], pages=pages) as server:
        model = model_at(server.url)
        for _ in range(2):
            [notice] = notices(await collect(model, REQUEST))
            assert notice.startswith("fake takes no tools (")
            assert notice.endswith("so it answers without them. With tools there: qwen3, llama3.1.")
        await model.aclose()
    assert ["tools" in request.body for request in server.requests] == [True, False, False]


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.WARNING, logger="agent_kernel"):
        yield caplog


@pytest.mark.parametrize(
    ("api", "said", "paths", "noted"),
    [
        ("chat", refusal(USE_RESPONSES, param="reasoning_effort"), [CHAT, RESPONSES, RESPONSES], "'Function tools"),
        ("responses", failure(404, "Not Found"), [RESPONSES, CHAT, CHAT], "'Not Found'"),
    ],
)
async def test_a_service_that_has_the_other_api_only_is_asked_there_after_one_refusal(
    api: ApiName, said: Reply, paths: list[str], noted: str, log: pytest.LogCaptureFixture
) -> None:
    async with connected(said, say("Hi"), say("Hi"), api=BY_NAME[api]) as (server, model):
        items = [*await collect(model, REQUEST), *await collect(model, REQUEST)]
    assert [request.path for request in server.requests] == paths
    assert notices(items) == []
    [record] = log.records
    other = "responses" if api == "chat" else "chat"
    said_to_be = record.getMessage().replace('"', "'")
    assert f"in the API '{other}' from now on, not in '{api}': it said {noted}" in said_to_be


async def test_where_the_other_api_is_not_there_either_the_first_words_count_and_the_first_api_is_asked_again(
    log: pytest.LogCaptureFixture,
) -> None:
    first = refusal("The API deployment for this resource does not exist.", 404, code="DeploymentNotFound")
    script = (first, failure(404, "Resource not found"), say("Hi"))
    async with connected(*script, api=BY_NAME["responses"]) as (server, model):
        with pytest.raises(
            ModelRefused, match=r"\(404\): The API deployment for this resource does not exist\."
        ) as caught:
            await collect(model, REQUEST)
        await collect(model, REQUEST)
    assert "does not know the model" not in str(caught.value)
    assert [request.path for request in server.requests] == [RESPONSES, CHAT, RESPONSES]
    assert len(log.records) == 1


LEFT_OUT = "fake does not take the effort 'high'; it was left out."
UNSUPPORTED = "Unsupported value: 'reasoning.effort' does not support 'high' with this model."


@pytest.mark.parametrize(
    ("api", "said", "notice"),
    [
        ("chat", refusal("Unsupported value", param="reasoning_effort"), LEFT_OUT),
        ("chat", refusal('"llama3.2" does not support thinking'), LEFT_OUT),
        ("responses", refusal(UNSUPPORTED, param="reasoning.effort", code="unsupported_value"), LEFT_OUT),
        (
            "messages",
            refusal("This model does not support the effort parameter."),
            LEFT_OUT,
        ),
    ],
)
async def test_an_effort_that_the_model_does_not_have_is_left_out_and_that_is_said_once(
    api: ApiName, said: Reply, notice: str
) -> None:
    request = replace(REQUEST, effort="high")
    async with connected(said, say("1"), say("2"), api=BY_NAME[api]) as (server, model):
        assert notices(await collect(model, request)) == [notice]
        assert notices(await collect(model, request)) == []
    assert ['"high"' in json.dumps(one.body) for one in server.requests] == [True, False, False]


async def test_other_ways_of_asking_come_to_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Fallbacks, "amended", lambda _, request, __: Amendment(request))
    async with connected(*[refusal("No.")] * (MOST_AMENDMENTS + 1)) as (_, model):
        with pytest.raises(ModelRefused, match="No"):
            await collect(model, REQUEST)


SEEN = ModelRequest(messages=({"role": "user", "content": "See?", "images": [REF]},), images={REF["digest"]: DATA})


@pytest.mark.parametrize(
    "words",
    [
        "Invalid content type. image_url is only supported by certain models.",
        "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj",
    ],
)
async def test_a_model_that_takes_no_images_is_told_of_them_in_words_from_then_on_and_it_is_said(words: str) -> None:
    script = (failure(400, words), say("No."))
    async with connected(*script, capabilities=Capabilities(images=True)) as (server, model):
        assert model.facts.images
        items = await collect(model, SEEN)
    [notice] = notices(items)
    assert notice.startswith(f"fake takes no images ({server.url} said: {words.rstrip('.')})")
    assert items[-1] == say("No.")
    first, second = (request.body["messages"][0]["content"] for request in server.requests)
    assert first[1] == URL
    assert "640 x 480 pixels" in second[1]["text"]
    assert not model.facts.images


SAID = {
    "This model's maximum context length is 128000 tokens. However, your messages resulted in 130172 tokens. Please "
    "reduce the length of the messages.": (130_172, 128_000),
    "prompt is too long: 209353 tokens > 199999 maximum": (209_353, 199_999),
    "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000": (None, 200_000),
    "request (5120 tokens) exceeds the available context size (4096 tokens), try increasing it": (5_120, 4_096),
    "Prompt contains 40000 tokens, too large for model with 32768 maximum context length": (40_000, 32_768),
}
OTHERWISE = (
    "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 35000.",
    "Invalid value for max_tokens.",
)


@pytest.mark.parametrize(("said", "told"), SAID.items())
def test_what_services_say_of_a_request_that_is_too_long_is_understood(said: str, told: tuple[int, int]) -> None:
    size, limit = told
    assert too_long(400, "", said, structured=True) == TooLong(size=size, limit=limit)


@pytest.mark.parametrize("said", OTHERWISE)
def test_other_refusals_are_not_taken_for_one(said: str) -> None:
    assert too_long(400, "", said, structured=True) is None
    assert too_long(401, "", "The context window is not for this key.", structured=True) is None


def too_long_for(limit: int, size: int = 0) -> Reply:
    return failure(400, f"prompt is too long: {size or limit + 1} tokens > {limit} maximum")


async def limit_after(model: HttpModel) -> int | None:
    """The limit that is known after one more request, however it ends."""
    with suppress(ContextExceeded):
        await turn_of(model)
    assert model.facts.context_is_learned is (model.facts.context_tokens is not None)
    return model.facts.context_tokens


async def test_the_limit_that_a_service_names_is_remembered_until_it_accepts_a_longer_request() -> None:
    script = (
        too_long_for(8_192, 9_000),
        say("1", usage=(8_192, 1)),
        say("2", usage=(8_193, 1)),
        too_long_for(8_192),  # below what it has accepted
        too_long_for(9_000),
    )
    async with connected(*script) as (_, model):
        assert [await limit_after(model) for _ in script] == [8_192, 8_192, None, None, 9_000]


PAGES = {
    "nginx": Reply(NGINX, status=413, content_type="text/html"),
    "a page of numbers": Reply(b"<html>Maximum context length is 413 tokens.</html>", status=400),
    "plain text": Reply(b"the request exceeds the available context size (512 tokens)", status=500),
    "Anthropic": json_reply({"error": {"type": "request_too_large", "message": "Request exceeds 32 MB"}}, status=413),
}


@pytest.mark.parametrize("page", PAGES)
async def test_nothing_is_learned_from_a_page_or_of_bytes(page: str) -> None:
    clock = VirtualClock()
    async with connected(PAGES[page], say("Hi"), clock=clock) as (_, model):
        with pytest.raises(ContextExceeded) as raised:
            await turn_of(model)
        assert (raised.value.size, raised.value.limit, model.facts.context_tokens) == (None, None, None)
        assert (await turn_of(model)).content == "Hi"
    assert clock.slept == []


def pictures(*sizes: int) -> ModelRequest:
    """A conversation of messages with a picture each."""
    images = {f"d{number}": "A" * size for number, size in enumerate(sizes)}
    messages = [{"role": "user", "content": "See.", "images": [{**REF, "digest": digest}]} for digest in images]
    return ModelRequest(messages, images=images)


def up_to(most_bytes: int) -> Callable[[dict[str, Any]], ModelTurn | Reply]:
    """A model behind nginx with such a `client_max_body_size`."""
    return lambda body: PAGES["nginx"] if len(json.dumps(body)) > most_bytes else say("I see.")


@pytest.mark.parametrize(
    ("sizes", "left_out"),
    [
        ((700, 2_000), ["a picture", "a picture"]),
        ((300, 300), []),
    ],
)
async def test_a_body_that_is_too_large_goes_again_without_its_older_pictures_and_then_without_any(
    sizes: tuple[int, ...], left_out: list[str]
) -> None:
    async with connected(*[up_to(1_500)] * (len(left_out) + 2)) as (server, model):
        items = await collect(model, pictures(*sizes))
        again = await collect(model, pictures(*sizes))  # what was refused is not sent again
    assert notices(items) == [
        f"Left out {what}: {server.url} takes no request of that size (it said: 413 Request Entity Too Large: "
        "nginx/1.22.1)."
        for what in left_out
    ]
    assert (items[-1], notices(again)) == (say("I see."), [])


async def test_what_is_learned_is_of_one_model_at_one_endpoint_and_listed() -> None:
    async with FakeOpenAI([too_long_for(8_192)]) as one, FakeOpenAI() as other:
        endpoints = [configured(name, {"base_url": at.url}) for name, at in (("one", one), ("two", other))]
        resolver = ModelResolver(endpoints=endpoints, environ={"OPENAI_BASE_URL": one.url})
        first = resolver.resolve("one/unlisted")
        with pytest.raises(ContextExceeded):
            await collect(first)
        names = ("openai/unlisted", "one/fake", "two/unlisted")
        assert [facts_of(resolver.resolve(name)).context_tokens for name in names] == [8_192, None, None]
        views = {view.name: view.models for view in (await resolver.listed()).endpoints}
        await resolver.aclose()
    learned = {name: [model.context_is_learned for model in models] for name, models in views.items()}
    assert learned == {"one": [False, True], "openai": [False, True], "two": [False]}
    assert (views["one"][1].name, views["one"][1].context_tokens) == ("one/unlisted", 8_192)
