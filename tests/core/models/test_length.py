"""A request that is too long is told from other refusals by what its service says."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from agent_kernel.errors import ContextExceeded, ModelRefused
from agent_kernel.models.base import ModelRequest, ModelTurn, Notice, TextDelta, facts_of
from agent_kernel.models.endpoints import configured
from agent_kernel.models.http import HttpModel
from agent_kernel.models.length import TooLong, too_long
from agent_kernel.models.resolver import ModelResolver
from agent_kernel.testing import FakeOpenAI, VirtualClock, say
from agent_kernel.testing.wire.reply import Reply, failure, json_reply
from tests.core.models.model_fixtures import collect, connected, error_of, turn_of
from tests.core.models.test_faults import NGINX

SAID = {
    "This model's maximum context length is 128000 tokens. However, your messages resulted in 130172 tokens. Please "
    "reduce the length of the messages.": (130_172, 128_000),
    "Your input exceeds the context window of this model. Please adjust your input and try again.": (None, None),
    "prompt is too long: 209353 tokens > 199999 maximum": (209_353, 199_999),
    "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000": (None, 200_000),
    "request (5120 tokens) exceeds the available context size (4096 tokens), try increasing it": (5_120, 4_096),
    "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).": (1_200_000, 1_048_576),
    "Prompt contains 40000 tokens, too large for model with 32768 maximum context length": (40_000, 32_768),
    "This endpoint's maximum context length is 131,072 tokens. You requested about 150,000 tokens.": (150_000, 131_072),
    "Prompt too long: 5152 tokens exceeds max_seq_len 2048": (5_152, 2_048),
    "Your request exceeded model token limit: 262144 (requested: 300000)": (None, 262_144),
}
OTHERWISE = (
    "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 35000.",
    "You exceeded your current quota.",
    "Invalid value for max_tokens.",
    "The model does not exist.",
    "",
)


@pytest.mark.parametrize("said", SAID)
def test_what_services_say_of_a_request_that_is_too_long_is_understood(said: str) -> None:
    size, limit = SAID[said]
    assert too_long(400, "", said, structured=True) == TooLong(size=size, limit=limit)


@pytest.mark.parametrize("said", OTHERWISE)
def test_other_refusals_are_not_taken_for_one(said: str) -> None:
    assert too_long(400, "", said, structured=True) is None
    assert too_long(401, "", "The context window is not for this key.", structured=True) is None


async def test_a_user_is_told_what_to_do_and_nothing_is_tried_again() -> None:
    clock = VirtualClock()
    body = {"error": {"code": 400, "message": "too big", "type": "exceed_context_size_error", "n_ctx": 4096}}
    reply = Reply(json.dumps(body).encode(), status=500, content_type="application/json")
    error = await error_of(reply, clock=clock)
    assert isinstance(error, ContextExceeded)
    assert isinstance(error, ModelRefused)
    assert clock.slept == []
    assert "is too long for" in str(error)
    assert "--tools" in str(error)
    assert "%agent new" in str(error)


def refusal(limit: int, size: int = 0) -> Reply:
    return failure(400, f"prompt is too long: {size or limit + 1} tokens > {limit} maximum")


async def ask(model: HttpModel) -> None:
    with pytest.raises(ContextExceeded):
        await turn_of(model)


async def test_the_limit_that_a_service_names_is_remembered_until_it_accepts_a_longer_request() -> None:
    script = (
        refusal(8_192, 9_000),
        say("1", usage=(8_192, 1)),
        say("2", usage=(8_193, 1)),
        refusal(8_192),
        refusal(9_000),
    )
    async with connected(*script) as (_, model):
        assert model.facts.context_tokens is None
        with pytest.raises(ContextExceeded) as raised:
            await turn_of(model)
        assert (raised.value.size, raised.value.limit) == (9_000, 8_192)
        assert (model.facts.context_tokens, model.facts.context_is_learned) == (8_192, True)
        await turn_of(model)
        assert model.facts.context_tokens == 8_192
        await turn_of(model)
        assert model.facts == replace(model.facts, context_tokens=None, context_is_learned=False)
        await ask(model)  # below what it has accepted
        assert model.facts.context_tokens is None
        await ask(model)
        assert model.facts.context_tokens == 9_000


PAGES = {
    "nginx": Reply(NGINX, status=413, content_type="text/html"),
    "a page of numbers": Reply(b"<html>Maximum context length is 413 tokens.</html>", status=400),
    "plain text": Reply(b"the request exceeds the available context size (512 tokens)", status=500),
    "a gateway": json_reply({"detail": "Request Entity Too Large (limit is 2048)"}, status=413),
    "Anthropic": json_reply({"error": {"type": "request_too_large", "message": "Request exceeds 32 MB"}}, status=413),
    "Vertex AI": failure(400, "Request payload size exceeds the limit: 20971520 bytes."),
}


@pytest.mark.parametrize("page", PAGES)
async def test_nothing_is_learned_from_a_page_or_of_bytes(page: str) -> None:
    clock = VirtualClock()
    async with connected(PAGES[page], say("Hi"), clock=clock) as (_, model):
        with pytest.raises(ContextExceeded) as raised:
            await turn_of(model)
        assert (raised.value.size, raised.value.limit) == (None, None)
        assert model.facts.context_tokens is None
        assert (await turn_of(model)).content == "Hi"
    assert clock.slept == []


async def test_what_is_learned_is_of_one_model_at_one_endpoint_and_listed() -> None:
    async with FakeOpenAI([refusal(8_192)]) as one, FakeOpenAI() as other:
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


def pictures(*sizes: int) -> ModelRequest:
    """A conversation of messages with a picture each."""
    images = {f"d{number}": "A" * size for number, size in enumerate(sizes)}
    refs = [[{"digest": digest, "media_type": "image/png", "width": 8, "height": 8}] for digest in images]
    return ModelRequest(tuple({"role": "user", "content": "See.", "images": ref} for ref in refs), images=images)


def up_to(most_bytes: int) -> Callable[[dict[str, Any]], ModelTurn | Reply]:
    """A model behind nginx with such a `client_max_body_size`."""
    return lambda body: PAGES["nginx"] if len(json.dumps(body)) > most_bytes else say("I see.")


@pytest.mark.parametrize(
    ("sizes", "left_out"),
    [
        ((700, 700, 700), ["2 pictures"]),
        ((700, 2_000), ["a picture", "a picture"]),
        ((2_000,), ["a picture"]),
        ((300, 300), []),
    ],
)
async def test_a_body_that_is_too_large_goes_again_without_its_older_pictures_and_then_without_any(
    sizes: tuple[int, ...], left_out: list[str]
) -> None:
    async with connected(*[up_to(1_500)] * (len(left_out) + 2)) as (server, model):
        items = await collect(model, pictures(*sizes))
        again = await collect(model, pictures(*sizes))  # what was refused is not sent again
    assert [item.content for item in items if isinstance(item, Notice)] == [
        f"Left out {what}: {server.url} takes no request of that size (it said: 413 Request Entity Too Large: "
        "nginx/1.22.1)."
        for what in left_out
    ]
    assert items[-1] == say("I see.")
    assert {type(item) for item in again} == {TextDelta, ModelTurn}
