"""What a user is told, and what is tried again and when, if a model's server fails or refuses, in whatever shape."""

import email.utils
import json
import re
import socket
from typing import Any

import pytest

from agent_kernel.errors import ModelRefused, ModelUnavailable
from agent_kernel.models.base import Delay, ModelItem
from agent_kernel.models.refusals import MOST_CHARACTERS, Refusal, page_text, read_refusal, wait_in_body
from agent_kernel.models.service_faults import FORMATS
from agent_kernel.testing import VirtualClock, say
from agent_kernel.testing.wire.reply import Reply, failure, json_reply, rate_limited
from tests.core.models.model_apis import CHAT, WireApi, each_api
from tests.core.models.model_fixtures import REQUEST, TURN, collect, connected, error_of, model_at, turn_of

QUOTA = {"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}
REFUSALS = {
    "no quota": (json_reply(QUOTA, status=429), ["no quota left"]),
    "a wrong key": (
        failure(401, "Incorrect API key"),
        [
            "refused the API key (401): Incorrect API key. Set GROQ_API_KEY to a key that may use fake, where",
            "; then stop the Jupyter server and start it again: restarting the kernel is not enough.",
        ],
    ),
    "an unknown model": (
        failure(404, "model not found, try pulling it first"),
        ["does not know the model 'fake' (404): model not found", "--model or AGENT_KERNEL_MODEL"],
    ),
    "a web page": (
        Reply(body=b"<html>Sign in</html>", content_type="text/html"),
        ["Check OPENAI_BASE_URL; it usually ends in /v1.", "does not speak the {format}"],
    ),
}


@each_api
@pytest.mark.parametrize(("reply", "says"), REFUSALS.values(), ids=REFUSALS)
async def test_a_refusal_is_said_at_once_with_the_setting_to_change(
    api: WireApi, reply: Reply, says: list[str]
) -> None:
    clock = VirtualClock()
    error = await error_of(reply, api=api, clock=clock, key_setting="GROQ_API_KEY")
    assert isinstance(error, ModelRefused)
    assert clock.slept == []
    for words in says:
        assert words.format(format=FORMATS[api.name]) in str(error)


async def test_nobody_at_the_address_is_retried_and_then_said_plainly() -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
        model = model_at(f"http://127.0.0.1:{port}/v1")
        with pytest.raises(ModelUnavailable, match=rf"127.0.0.1:{port}/v1 can't be reached after 4 tries") as caught:
            await collect(model)
        await model.aclose()
    assert "Is the server there running? OPENAI_BASE_URL sets the address." in str(caught.value)
    assert str(caught.value).endswith("`agent-kernel doctor` asks it, and says what is wrong.")


@each_api
async def test_an_error_inside_the_stream_is_tried_again_at_its_start_and_reported_later(api: WireApi) -> None:
    async with connected(Reply(body=api.broken(message="Overloaded", status=529)), say("Hi"), api=api) as (_, model):
        assert (await turn_of(model)).content == "Hi"
    error = await error_of(Reply(body=api.broken("Hel", message="GPU lost", status=500), pause=0.05), api=api)
    assert isinstance(error, ModelUnavailable)
    assert "cut off after 1 word: GPU lost." in str(error)


async def test_silence_ends_the_answer() -> None:
    error = await error_of(CHAT.streamed(TURN, hang_after=0), idle_seconds=0.1)
    assert isinstance(error, ModelUnavailable)
    assert "went silent: nothing came for 0.1 s." in str(error)
    half = CHAT.streamed(TURN, hang_after=len(CHAT.body(TURN)) // 2, pause=0.01)
    error = await error_of(half, idle_seconds=0.1)
    assert "nothing came for 0.1 s. What came is kept in the record." in str(error)


NGINX = (
    b"<html>\r\n<head><title>413 Request Entity Too Large</title></head>\r\n<body>\r\n"
    b"<center><h1>413 Request Entity Too Large</h1></center>\r\n<hr>"
    b"<center>nginx/1.22.1</center>\r\n</body>\r\n</html>\r\n"
)
CLOUDFLARE = b"""<!DOCTYPE html>
<!--[if lt IE 7]> <html class="no-js ie6 oldie"> <![endif]-->
<head><title>api.example.org | 502: Bad gateway</title><style>p {color: red}</style><script>if (1 < 2) {}</script>
</head><body><h1>Bad gateway</h1><p>The web server reported a bad&nbsp;gateway &amp; left.</p></body></html>"""
SAID = "Tools must have a name."
REAL = {"error": {"message": SAID, "type": "invalid_request_error", "param": "tools", "code": None}}


def openrouter(raw: Any) -> dict[str, Any]:
    metadata = {"raw": raw, "provider_name": "OpenAI", "is_byok": False}
    return {"error": {"message": "Provider returned error", "code": 400, "metadata": metadata}, "user_id": "user_1"}


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (REAL, SAID),
        (openrouter(json.dumps(REAL)), f"Provider returned error: {SAID}"),
        (openrouter(NGINX.decode()), "Provider returned error: 413 Request Entity Too Large: nginx/1.22.1"),
        ({"message": json.dumps(REAL), "error_code": "BAD_REQUEST"}, SAID),
        (
            {"detail": [{"loc": ["body", "tools", 0], "msg": "Field required", "type": "missing"}, {"msg": SAID}]},
            f"body.tools.0: Field required: {SAID}",
        ),
        ({"status": "failure"}, '{"status":"failure"}'),
    ],
)
def test_a_services_own_words_are_found_however_they_are_nested(body: Any, detail: str) -> None:
    said = read_refusal(json.dumps(body).encode())
    assert said.detail == detail
    assert said.structured
    assert read_refusal(body) == said


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (NGINX, "413 Request Entity Too Large: nginx/1.22.1"),
        (CLOUDFLARE, "api.example.org | 502: Bad gateway: The web server reported a bad gateway & left."),
        (b"upstream connect error", "upstream connect error"),
        (b"", ""),
    ],
)
def test_of_a_page_its_title_and_one_line_are_read_and_nobody_takes_it_for_the_services_own_error(
    body: bytes, detail: str
) -> None:
    assert read_refusal(body) == Refusal(detail)


@pytest.mark.parametrize(
    "body", [b"<!--" * 250_000, b"<html>" + b"<a " * 300_000, b"[" * 10**6, b'{"message":' * 10**5, b"data: " * 10**5]
)
def test_a_megabyte_that_is_made_to_be_slow_is_read_in_part(body: bytes) -> None:
    assert len(read_refusal(body).detail) <= MOST_CHARACTERS
    assert len(page_text(body.decode())) <= MOST_CHARACTERS


LOADING = {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}


def delays(items: list[ModelItem]) -> list[Delay]:
    return [item for item in items if isinstance(item, Delay)]


@pytest.mark.parametrize(
    ("body", "seconds"),
    [
        ({"message": "Rate limit reached on tokens per min. Please try again in 1.2s. Visit https://a.example"}, 1.2),
        ({"message": "Rate limit reached. Please try again in 7m12.5s. Need more tokens?"}, 432.5),
        ({"code": 429, "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "24s"}]}, 24),
        ({"message": "Please try again later."}, None),
        ({"message": "retry in 12 steps", "retryDelay": ["24s"], "retry_after": "soon"}, None),
    ],
)
def test_a_wait_that_a_body_asks_for_is_read_in_every_services_words(body: Any, seconds: float | None) -> None:
    assert wait_in_body(body) == pytest.approx(seconds)


async def test_a_wait_may_be_given_in_milliseconds_or_as_a_date() -> None:
    clock = VirtualClock()
    date = email.utils.formatdate(clock.now() + 30.25 + 12, usegmt=True)
    script = (failure(429, retry_after_ms="250", retry_after="9"), failure(503, retry_after=date), say("Hi"))
    async with connected(*script, clock=clock) as (_, model):
        await collect(model)
    assert clock.slept == [0.25, pytest.approx(42, abs=1)]


async def test_each_try_is_said_with_its_time_and_its_cause() -> None:
    script = (rate_limited(retry_after="30"), failure(529, "Overloaded"), failure(500, "Boom"), say("Hi"))
    async with connected(*script) as (server, model):
        told = delays(await collect(model))
    assert [(one.kind, one.attempt, one.tries, one.cause) for one in told] == [
        ("rate_limited", 2, 4, "Rate limit reached."),
        ("overloaded", 3, 4, "Overloaded."),
        ("failed", 4, 4, f"{server.url} failed (500): Boom."),
    ]
    assert told[0].seconds == 30


async def test_a_person_who_does_not_want_to_wait_has_it_tried_now_and_that_is_none_of_the_tries() -> None:
    clock = VirtualClock(auto=False)
    async with connected(rate_limited(5, retry_after="30"), say("Hi"), clock=clock) as (server, model):
        told: list[Delay] = []
        async for item in model.stream(REQUEST):
            if isinstance(item, Delay):
                told.append(item)
                item.hurry.set()
    assert [one.attempt for one in told] == [2] * 5
    assert len(server.requests) == 6
    assert clock.sleepers == 0


async def test_a_server_that_is_loading_its_model_is_waited_for_and_these_are_no_tries() -> None:
    clock = VirtualClock()
    loading = json_reply(LOADING, status=503, times=12)
    async with connected(loading, failure(500, times=3), say("Hi"), clock=clock) as (_, model):
        told = delays(await collect(model))
    assert clock.slept[:12] == [2.0] * 12
    assert [(one.kind, one.tries) for one in told] == [("loading", None)] * 12 + [("failed", 4)] * 3
    assert told[0].cause == "Loading model."


@each_api
async def test_a_cut_connection_says_after_how_many_words_and_not_what_http_calls_it(api: WireApi) -> None:
    begun = api.streamed(TURN, cut_after=len(api.body(TURN)) // 2, pause=0.02)
    assert re.fullmatch(
        r"The answer was cut off after \d words: the connection was closed early\. "
        r"What came is kept in the record\. Try again asks the model once more\.",
        str(await error_of(begun, api=api)),
    )


@pytest.mark.parametrize("reply", [CHAT.streamed(TURN, cut_after=0), failure(504, "Gateway Time-out")])
async def test_a_gateway_that_waits_for_no_long_prompt_is_named_as_the_likely_cause(reply: Reply) -> None:
    clock = VirtualClock()

    def after_a_minute(_: dict[str, Any]) -> Reply:
        clock.advance(60)
        return reply

    async with connected(after_a_minute, failure(500), TURN, clock=clock) as (_, model):
        late, early = delays(await collect(model))
    assert "That was after 60 s: probably the model takes longer to read so long a prompt than a gateway" in late.cause
    assert "probably" not in early.cause
