"""A service that refuses a request in one way is asked in another, once, and the log or the run says so."""

import json
import logging
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from agent_kernel.errors import ModelRefused
from agent_kernel.models.api import Amendment
from agent_kernel.models.base import ModelRequest, Notice
from agent_kernel.models.chat import ChatApi
from agent_kernel.models.endpoints import configured
from agent_kernel.models.fallbacks import APIS, other_api, refuses_tools
from agent_kernel.models.http import MOST_AMENDMENTS
from agent_kernel.models.known import Capabilities
from agent_kernel.models.resolver import ModelResolver
from agent_kernel.models.service_faults import Fault
from agent_kernel.protocol.vocabulary import ApiName
from agent_kernel.testing import FakeOpenAI, VirtualClock, say
from agent_kernel.testing.fake_service import Scripted
from agent_kernel.testing.wire.reply import Reply, failure
from tests.core.models.model_apis import BY_NAME
from tests.core.models.model_fixtures import collect, connected, model_at
from tests.core.models.test_images import DATA, REF, URL

TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
MESSAGES = ({"role": "user", "content": "Hi"},)
REQUEST = ModelRequest(messages=MESSAGES, tools=(TOOL,))
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
    body = json.dumps({"error": {"message": message, "type": "invalid_request_error", **fields}}).encode()
    return Reply(body=body, status=status, content_type="application/json")


async def items_of(
    *script: Scripted, request: ModelRequest = REQUEST, turns: int = 1, api: ApiName = "chat", names: Sequence[str] = ()
) -> tuple[list[Any], FakeOpenAI]:
    items: list[Any] = []
    async with FakeOpenAI(script, pages={"/v1/models": {"data": [{"id": name} for name in names]}}) as server:
        model = model_at(server.url, api=BY_NAME[api])
        try:
            for _ in range(turns):
                items += await collect(model, request)
        finally:
            await model.aclose()
    return items, server


def fault(message: str, status: int | None = 400, code: str = "") -> Fault:
    return Fault("status", message, status=status, code=code)


@pytest.mark.parametrize(
    ("said", "api", "other"),
    [
        (fault(USE_RESPONSES), "chat", "responses"),
        (
            fault("This model is only supported in v1/responses and not in v1/chat/completions.", 404),
            "chat",
            "responses",
        ),
        (fault("fake is not supported with the Responses API. Use Chat Completions API."), "responses", "chat"),
        (fault("Not Found", 404), "responses", "chat"),
        (fault("Invalid URL (POST /v1/responses)", 404), "responses", "chat"),
        (fault("Unexpected endpoint or method. (POST /v1/responses). Returning 200 anyway", None), "responses", "chat"),
        (fault("Not found", 404, "not_found_error"), "chat", "messages"),
        (fault("Please use /v1/messages for this model."), "chat", "messages"),
        (fault(LITELLM, 404), "messages", "chat"),
        (
            fault("litellm.APIError: OpenAIException - 404 page not found. Received Model Group=fake", 500),
            "messages",
            "chat",
        ),
        (fault('OpenAIException - {"detail":"Not Found"}', 502), "responses", "chat"),
        (fault("Error code: 404 - {'error': {'message': 'The model `x` does not exist'}}", 404), "messages", None),
        (fault("The model `fake` does not exist", 404, "model_not_found"), "responses", None),
        (fault("model 'fake' not found, try pulling it first", 404), "responses", None),
        (fault("Not Found", 404), "chat", None),
        (fault("Use /v1/responses or /v1/messages."), "chat", None),
    ],
)
def test_an_error_that_names_the_other_api_is_understood(said: Fault, api: ApiName, other: ApiName | None) -> None:
    assert other_api(said, api, "fake") == other


@pytest.mark.parametrize(
    "message",
    [
        "registry.ollama.ai/library/gemma3:4b does not support tools",
        "No endpoints found that support tool use. To learn more about provider routing, lease: https://openrouter.ai",
        '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set',
        "tools param requires --jinja flag",
    ],
)
async def test_a_model_that_knows_no_tools_answers_without_them_and_the_run_says_so(message: str) -> None:
    assert refuses_tools(fault(message))
    items, server = await items_of(
        refusal(message, 404),
        say("Hi"),
        say("Hi again"),
        turns=2,
        names=["fake", "qwen3", "gemma3", "llama3.1"],
    )
    notices = [item.content for item in items if isinstance(item, Notice)]
    assert len(notices) == 2
    assert notices[0] == notices[1]
    assert notices[0].startswith("fake takes no tools (")
    assert notices[0].endswith("so it answers without them. With tools there: qwen3, llama3.1.")
    assert ["tools" in request.body for request in server.requests] == [True, False, False]


async def test_a_model_that_is_configured_without_tools_is_never_asked_with_them() -> None:
    async with FakeOpenAI([say("Hi")]) as server:
        resolver = ModelResolver(endpoints=[configured("lab", {"base_url": server.url, "tools": False})])
        model = resolver.resolve("m")
        assert not model.facts.tools
        notice, *_ = await collect(model, REQUEST)
        await resolver.aclose()
    assert isinstance(notice, Notice)
    assert notice.content.startswith("m takes no tools (so it is configured), so it answers without them.")
    assert "tools" not in server.requests[0].body


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
    items, server = await items_of(said, say("Hi"), say("Hi"), turns=2, api=api)
    assert [request.path for request in server.requests] == paths
    assert items[-1].content == "Hi"
    assert not any(isinstance(item, Notice) for item in items)
    (record,) = log.records
    other = "responses" if api == "chat" else "chat"
    said_to_be = record.getMessage().replace('"', "'")
    assert f"in the API '{other}' from now on, not in '{api}': it said {noted}" in said_to_be


async def test_where_the_other_api_is_not_there_either_the_first_words_count_and_the_first_api_is_asked_again(
    log: pytest.LogCaptureFixture,
) -> None:
    first = refusal("The API deployment for this resource does not exist.", 404, code="DeploymentNotFound")
    async with FakeOpenAI([first, failure(404, "Resource not found"), say("Hi")]) as server:
        model = model_at(server.url, api=BY_NAME["responses"])
        with pytest.raises(ModelRefused) as caught:
            await collect(model, REQUEST)
        await collect(model, REQUEST)
        await model.aclose()
    assert "(404): The API deployment for this resource does not exist." in str(caught.value)
    assert "does not know the model" not in str(caught.value)
    assert "Resource not found" not in str(caught.value)
    assert [request.path for request in server.requests] == [RESPONSES, CHAT, RESPONSES]
    assert len(log.records) == 1


@pytest.mark.parametrize(
    "said",
    [
        refusal("Unrecognized request argument supplied: reasoning_effort", param=None),
        refusal("Unsupported value", param="reasoning_effort"),
        refusal('"llama3.2" does not support thinking'),
    ],
)
async def test_an_effort_that_the_model_does_not_have_is_left_out(said: Reply) -> None:
    request = ModelRequest(messages=MESSAGES, effort="high")
    items, server = await items_of(said, say("Hi"), say("Hi"), request=request, turns=2)
    assert [item.content for item in items if isinstance(item, Notice)] == [
        "fake does not take the effort 'high'; it was left out."
    ]
    assert ["reasoning_effort" in request.body for request in server.requests] == [True, False, False]


async def test_a_request_that_is_asked_otherwise_is_asked_at_once_and_retried_as_often_as_another() -> None:
    clock = VirtualClock()
    script = (refusal("fake does not support tools"), failure(500, times=3), say("Hi"))
    async with connected(*script, clock=clock) as (server, model):
        assert (await collect(model, REQUEST))[-1] == say("Hi")
    assert ["tools" in request.body for request in server.requests] == [True, *[False] * 4]
    assert len(clock.slept) == 3


async def test_other_ways_of_asking_come_to_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stubborn(ChatApi):
        def amended(self, request: ModelRequest, fault: Fault) -> Amendment | None:
            return Amendment(request)

    monkeypatch.setitem(APIS, "chat", Stubborn)
    async with connected(*[refusal("No.")] * (MOST_AMENDMENTS + 1)) as (_, model):
        with pytest.raises(ModelRefused, match="No"):
            await collect(model, REQUEST)


SEEN = ModelRequest(messages=({"role": "user", "content": "See?", "images": [REF]},), images={REF["digest"]: DATA})


@pytest.mark.parametrize(
    "words",
    [
        "Invalid content type. image_url is only supported by certain models.",
        "this model does not support image input (ref: 1)",
        "At most 1 image(s) may be provided in one prompt.",
        "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj",
    ],
)
async def test_a_model_that_takes_no_images_is_told_of_them_in_words_from_then_on_and_it_is_said(words: str) -> None:
    script = (failure(400, words), say("No."))
    async with connected(*script, capabilities=Capabilities(images=True)) as (server, model):
        assert model.facts.images
        items = await collect(model, SEEN)
    assert isinstance(items[0], Notice)
    assert items[0].content.startswith(f"fake takes no images ({server.url} said: {words.rstrip('.')})")
    assert items[-1] == say("No.")
    first, second = (request.body["messages"][0]["content"] for request in server.requests)
    assert first[1] == URL
    assert "640 x 480 pixels" in second[1]["text"]
    assert not model.facts.images
