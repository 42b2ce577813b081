"""Keys and addresses: a key goes where it belongs, and is shown nowhere, however a service writes it."""

import html
import json
import logging
import traceback
from collections.abc import Callable
from functools import partial
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_kernel.errors import ConfigurationError, ModelError, ModelRefused
from agent_kernel.models.base import ModelItem, ModelTurn, TextDelta, ToolCallDelta
from agent_kernel.models.endpoints import Endpoint
from agent_kernel.models.redaction import IN_PLACE, TELLING_CHARACTERS, Redaction, Secrets
from agent_kernel.models.resolver import ModelResolver
from agent_kernel.testing import requested, say
from agent_kernel.testing.wire.reply import Reply, failure
from tests.core.models.model_apis import WireApi, each_api
from tests.core.models.model_fixtures import collect, connected, error_of, model_at, turn_of

SECRET = "Ab12Cd34Ef56Gh78Ij90Kl"
"""It has no shape that would give it away."""


@each_api
async def test_a_redirect_is_not_followed(api: WireApi) -> None:
    async with api.service() as elsewhere:
        location = f"{elsewhere.url}/{api.make('', '').path}"
        error = await error_of(Reply(status=307, headers={"location": location}), api=api)
    assert isinstance(error, ModelRefused)
    assert "a key is sent to no other address" in str(error)
    assert elsewhere.requests == []


LEAKS: dict[str, Callable[[WireApi], Reply]] = {
    "refused": lambda _: failure(401, f"Incorrect API key provided: {SECRET}."),
    "headers": lambda _: failure(400, f"headers: {{'authorization': 'Bearer {SECRET}'}}"),
    "cut": lambda _: failure(400, "x" * 490 + SECRET),
    "failing": lambda _: failure(500, f"key {SECRET}", times=4),
    "in the stream": lambda api: Reply(body=api.broken("Hi", message=f"key {SECRET} expired"), pause=0.05),
    "garbage": lambda _: Reply(body=f"data: {SECRET}\n\n".encode(), times=4),
    "page": lambda _: Reply(body=f"<html>{SECRET}".encode(), content_type="text/html"),
}


@each_api
@pytest.mark.parametrize("leak", LEAKS)
async def test_the_key_never_leaks(api: WireApi, leak: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    key = SECRET if leak != "headers" else "another-key"  # it repeats a key of another service
    async with connected(LEAKS[leak](api), api=api, key=lambda: key, others=lambda: [SECRET]) as (server, model):
        with pytest.raises(ModelError) as caught:
            await collect(model)
        shown = [repr(model), repr(model.client.endpoint)]
    assert api.sent_key(server.requests[0]) == key
    error = caught.value
    assert error.__context__ is None
    assert error.__cause__ is None
    shown += ["".join(traceback.format_exception(error)), repr(error), caplog.text]
    for text in shown:
        assert SECRET not in text
        assert SECRET[:14] not in text


async def test_a_key_that_no_header_can_hold_is_named_not_shown() -> None:
    async with connected(key=lambda: "sk-a\nb") as (_, model):
        with pytest.raises(ConfigurationError, match="OPENAI_API_KEY holds characters"):
            await collect(model)


async def test_what_the_environment_holds_for_openai_is_not_sent_to_other_endpoints(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.setenv(name, f"{SECRET}-{name}")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", f"X-Gateway: {SECRET}\nauthorization: Basic of-the-gateway")
    async with connected(say("Hi"), key=lambda: None) as (other, model):
        await turn_of(model)
    assert SECRET not in str(other.requests)
    async with connected(say("Hi"), ambient=True) as (own, model):
        await turn_of(model)
    sent = own.requests[0].headers
    assert (sent["openai-organization"], sent["x-gateway"]) == (f"{SECRET}-OPENAI_ORG_ID", SECRET)
    assert sent["authorization"] == "Basic of-the-gateway", "a gateway's own goes in place of the key"


async def test_keys_in_the_environment_are_hidden_though_no_endpoint_uses_them() -> None:
    names = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
    environ = {name: f"the key {name}" for name in names} | {"OPENAI_BASE_URL": "no address"}
    lab = Endpoint("lab", "https://lab.example/v1", api_key=lambda: "the key of lab")
    models = ModelResolver(environ=environ, endpoints=[lab], other_secrets=["the token"])
    assert {*models.secrets()} == {*(f"the key {name}" for name in names), "the key of lab", "the token"}


KEY = "sk-test-0123456789"
TOKEN = 'a token / with "quotes" and ä'


def passed(*items: ModelItem, secrets: tuple[str, ...] = (KEY, TOKEN)) -> list[ModelItem]:
    redaction = Redaction(secrets)
    return [clean for item in items for clean in redaction.take(item)]


@given(st.lists(st.sampled_from([KEY, TOKEN, KEY[:5], KEY[5:], "s", "sk-", " and ", "ä"])), st.data())
def test_in_pieces_of_any_size_a_key_is_replaced_as_in_the_whole(parts: list[str], data: st.DataObject) -> None:
    text = "".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=20)))
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    *deltas, turn = passed(*map(TextDelta, pieces), ModelTurn(content=text))
    shown = "".join(delta.content for delta in deltas if isinstance(delta, TextDelta))
    assert KEY not in shown
    assert TOKEN not in shown
    assert shown == turn.content == text.replace(KEY, IN_PLACE).replace(TOKEN, IN_PLACE)


@pytest.mark.parametrize(
    "write", [str, repr, json.dumps, partial(json.dumps, ensure_ascii=False), partial(quote, safe=""), html.escape]
)
@pytest.mark.parametrize("secret", [KEY, TOKEN, "back\\slash'<&>"])
def test_a_key_is_replaced_in_the_writings_of_other_languages(secret: str, write: Callable[[str], str]) -> None:
    written = write(secret)
    shown = Secrets([secret]).clean(f"key = {written}.")
    assert shown.strip("'\"") in (f"key = {IN_PLACE}.", f"key = '{IN_PLACE}'.", f'key = "{IN_PLACE}".')


def test_a_key_that_was_cut_off_is_replaced_as_a_whole_one() -> None:
    key = "sk-proj-" + "aB3_-x9Z" * 20
    for end in range(TELLING_CHARACTERS, len(key) + 1):
        for sign in ("", "...", "…", "'...", ", ", "\n"):
            assert Secrets([key]).clean(f"k = '{key[:end]}{sign}").removesuffix(sign) == f"k = '{IN_PLACE}"
    assert Secrets([key]).clean("sk-proj-other") == "sk-proj-other"


@each_api
async def test_a_service_that_repeats_its_key_is_not_repeated(api: WireApi) -> None:
    called = requested("f", {"code": f"print('{api.key}')"}, call_id=f"c-{api.key}")
    turn = ModelTurn(f"Your key is {api.key}.", reasoning=f"Hm, {api.key}", tool_calls=(called,))
    async with connected(Reply(body=api.body(turn), split_every=5), api=api) as (server, model):
        heard = await turn_of(model)
        assert api.sent_key(server.requests[0]) == api.key
    assert api.key not in repr(heard)
    assert (heard.content, heard.provider) == (f"Your key is {IN_PLACE}.", None)


async def test_a_password_in_the_address_is_not_shown() -> None:
    assert "hunter2" not in repr(model_at("http://ada:hunter2@127.0.0.1:1/v1"))


@pytest.mark.parametrize("secret", [KEY, TOKEN])
def test_a_call_tells_no_key_in_any_of_its_parts(secret: str) -> None:
    escaped = "".join(f"\\u{ord(character):04x}" for character in secret)
    call = requested(f"f{secret}", f'{{"a": "{escaped}", "b": {json.dumps(secret)}}}', call_id=f"c{secret}")
    begun, turn = passed(ToolCallDelta(0, call.name, call.id), ModelTurn(content="", tool_calls=(call,)))
    assert secret not in f"{begun!r}"
    (clean,) = turn.tool_calls
    assert (clean.name, clean.id) == (f"f{IN_PLACE}", f"c{IN_PLACE}")
    assert set(json.loads(clean.arguments).values()) == {IN_PLACE}
