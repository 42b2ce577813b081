"""The adapter against a real server on a real socket: what a user gets, and is told, whatever the server does."""

import asyncio
import email.utils
import gc
import logging
import socket
import subprocess
import sys
import traceback
from contextlib import aclosing
from urllib.parse import quote

import pytest

from agent_kernel.errors import ConfigurationError, ModelError, ModelRefused, ModelUnavailable
from agent_kernel.models.base import ModelRequest, TextDelta
from agent_kernel.models.openai import Connection, OpenAIModel, SharedClient
from agent_kernel.models.retry import RetryPolicy
from agent_kernel.testing import FakeOpenAI, VirtualClock, call, calls, say
from agent_kernel.testing.fake_openai import FAKE_KEY, Scripted
from agent_kernel.testing.wire import Reply, delta, event_stream, events, failure, plain, rate_limited, streamed
from tests.core.model_fixtures import REQUEST, collect, connected, turn_of, until

TURN = calls(call("run_python", call_id="call_1", code="naïve 🐧"), text="Let me look. 你好", usage=(11, 7))
SECRET = "sk-proj-Ab12Cd34Ef56Gh78"


async def error_of(*script: Scripted, clock: VirtualClock | None = None, **options: object) -> ModelError:
    async with connected(*script, clock=clock, **options) as (_, model):
        with pytest.raises(ModelError) as caught:
            await collect(model)
    return caught.value


@pytest.mark.parametrize(
    "reply",
    [
        streamed(TURN),
        streamed(TURN, split_every=7),
        streamed(TURN, newline="\r\n"),
        streamed(TURN, newline="\r\n", split_every=5),
        streamed(TURN, newline="\r"),
        streamed(TURN, comments=True),
        streamed(TURN, done=False),
        streamed(TURN, indices=False),
        plain(TURN),
    ],
    ids=["plain", "7 bytes", "crlf", "crlf split", "cr", "keep-alives", "no done", "no indices", "not streamed"],
)
async def test_an_answer_arrives_whole_however_it_is_sent(reply: Reply) -> None:
    async with connected(reply) as (_, model):
        assert await turn_of(model) == TURN


async def test_interleaved_parallel_calls_arrive_apart() -> None:
    turn = calls(call("a", call_id="1", x="1" * 30), call("b", call_id="2", y="2" * 50))
    async with connected(streamed(turn, interleave=True, split_every=11)) as (_, model):
        assert await turn_of(model) == turn


async def test_tokens_are_shown_as_they_come() -> None:
    body = event_stream([delta(content="Hel"), delta(content="lo")], done=False)
    async with connected(Reply(body=body, hang_after=len(body)), idle_seconds=5.0) as (server, model):
        seen = ""
        async with aclosing(model.stream(REQUEST)) as items:
            async for item in items:
                assert isinstance(item, TextDelta)
                seen += item.content
                if seen == "Hello":
                    break
        await until(lambda: server.abandoned == 1)


async def test_the_request_asks_for_usage_and_carries_the_tools() -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    async with connected(say("Hi"), say("Hi")) as (server, model):
        await turn_of(model, ModelRequest(REQUEST.messages, (tool,)))
        await turn_of(model)
    first, second = server.requests
    assert first.body == {
        "model": "fake",
        "messages": list(REQUEST.messages),
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": [tool],
    }
    assert "tools" not in second.body
    assert first.headers["authorization"] == f"Bearer {FAKE_KEY}"


async def test_half_a_character_in_a_tools_output_does_not_stop_the_conversation() -> None:
    async with connected(say("Hi")) as (server, model):
        await turn_of(model, ModelRequest([{"role": "user", "content": "caf\udce9 é"}], ({"maximum": 2**70},)))
    assert server.requests[0].body["messages"][0]["content"] == "caf? é"
    assert server.requests[0].body["tools"][0]["maximum"] == 2**70


async def test_a_connection_is_used_again() -> None:
    async with connected(say("1"), say("2")) as (server, model):
        await turn_of(model)
        client = await model._client.get()
        await turn_of(model)
        assert await model._client.get() is client
    assert len(server.requests) == 2


async def test_a_server_that_keeps_the_connection_open_after_done_does_not_hold_the_answer() -> None:
    body = event_stream([delta(content="Hi"), delta("stop")])
    async with connected(Reply(body=body, hang_after=len(body)), idle_seconds=30.0) as (_, model):
        async with asyncio.timeout(5):
            assert (await turn_of(model)).content == "Hi"


async def test_a_connection_that_breaks_after_the_end_has_lost_nothing() -> None:
    body = event_stream([delta(content="Hi"), delta("stop")], done=False)
    async with connected(Reply(body=body, cut_after=len(body))) as (_, model):
        assert (await turn_of(model)).content == "Hi"


async def test_a_rate_limit_is_waited_out() -> None:
    clock = VirtualClock()
    async with connected(rate_limited(3, retry_after="7"), say("Hi"), clock=clock) as (server, model):
        assert (await turn_of(model)).content == "Hi"
    assert clock.slept == [7.0, 7.0, 7.0]
    assert len(server.requests) == 4


async def test_a_wait_may_be_given_in_milliseconds_or_as_a_date() -> None:
    clock = VirtualClock()
    date = email.utils.formatdate(clock.now() + 30.25 + 12, usegmt=True)
    script: list[Scripted] = [
        failure(429, retry_after_ms="250", retry_after="9"),
        failure(503, retry_after=date),
        say("Hi"),
    ]
    async with connected(*script, clock=clock) as (_, model):
        await turn_of(model)
    assert clock.slept[0] == 0.25
    assert clock.slept[1] == pytest.approx(42, abs=1)


async def test_a_failing_server_is_asked_four_times_with_growing_pauses() -> None:
    clock = VirtualClock()
    error = await error_of(failure(500, "Boom", times=4), clock=clock)
    assert isinstance(error, ModelUnavailable)
    assert "failed after 4 tries (500): Boom." in str(error)
    assert [0.375 <= clock.slept[0] <= 0.5, 0.75 <= clock.slept[1] <= 1.0, 1.5 <= clock.slept[2] <= 2.0] == [True] * 3


async def test_a_wait_of_an_hour_is_reported_instead_of_waited() -> None:
    clock = VirtualClock()
    error = await error_of(failure(429, "Slow down", retry_after="3600"), clock=clock)
    assert clock.slept == []
    assert str(error).endswith("(429): Slow down. It asks to wait 3600 s.")


async def test_a_server_that_says_not_to_retry_is_not_asked_again() -> None:
    assert isinstance(await error_of(failure(500, "No", x_should_retry="false")), ModelRefused)


async def test_an_exhausted_quota_is_not_retried() -> None:
    body = b'{"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}'
    error = await error_of(Reply(body=body, status=429, content_type="application/json"))
    assert isinstance(error, ModelRefused)
    assert "no quota left" in str(error)


async def test_nobody_at_the_address_is_retried_and_then_said_plainly() -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
        clock = VirtualClock()
        model = OpenAIModel("fake", SharedClient(Connection(f"http://127.0.0.1:{port}/v1", lambda: None)), clock=clock)
        with pytest.raises(ModelUnavailable, match=rf"127.0.0.1:{port}/v1 can't be reached after 4 tries"):
            await collect(model)
        await model.aclose()
    assert len(clock.slept) == 3


async def test_a_dropped_connection_before_the_first_word_is_tried_again() -> None:
    async with connected(streamed(TURN, cut_after=0), streamed(TURN, cut_after=40), TURN) as (_, model):
        assert await turn_of(model) == TURN


async def test_an_answer_that_breaks_off_is_not_begun_again() -> None:
    clock = VirtualClock()
    error = await error_of(streamed(TURN, cut_after=900, pause=0.02), clock=clock)
    assert isinstance(error, ModelUnavailable)
    assert str(error).startswith("The answer of fake was cut off")
    assert clock.slept == []


async def test_half_a_call_is_never_a_call() -> None:
    half = [
        delta(tool_calls=[{"index": 0, "id": "c", "function": {"name": "run_shell", "arguments": '{"command": "rm '}}])
    ]
    error = await error_of(events(*half, done=False))
    assert str(error) == ("The answer of fake was cut off: the connection ended in the middle of a call of run_shell.")


async def test_garbage_is_tried_again_and_then_reported() -> None:
    error = await error_of(Reply(body=b"data: {oops\n\n", times=4))
    assert isinstance(error, ModelUnavailable)
    assert "not JSON: {oops" in str(error)


async def test_an_error_inside_the_stream_is_reported() -> None:
    error = await error_of(events(delta(content="Hel"), {"error": {"message": "GPU lost", "code": 500}}, pause=0.05))
    assert isinstance(error, ModelUnavailable)
    assert "cut off: GPU lost" in str(error)


async def test_an_error_that_comes_with_the_first_words_hides_nothing_anybody_saw_and_is_tried_again() -> None:
    broken = event_stream([delta(content="Hel"), {"error": {"message": "GPU lost", "code": 500}}])
    async with connected(Reply(body=broken, split_every=len(broken)), say("Hi")) as (_, model):
        assert (await turn_of(model)).content == "Hi"


async def test_an_error_at_the_start_of_the_stream_is_tried_again() -> None:
    async with connected(events({"error": {"message": "Overloaded", "code": 529}}), say("Hi")) as (_, model):
        assert (await turn_of(model)).content == "Hi"


async def test_silence_ends_the_answer() -> None:
    error = await error_of(streamed(TURN, hang_after=0), idle_seconds=0.1)
    assert isinstance(error, ModelUnavailable)
    assert "went silent: nothing came for 0.1 s." in str(error)
    error = await error_of(streamed(TURN, hang_after=700, pause=0.01), idle_seconds=0.1)
    assert "cut off: nothing came for 0.1 s." in str(error)


async def test_keep_alive_comments_keep_a_slow_answer_alive() -> None:
    comments = b": still thinking\n\n" * 10
    body = comments + event_stream([delta(content="Hi"), delta("stop")])
    async with connected(Reply(body=body, pause=0.04), idle_seconds=0.3) as (_, model):
        assert (await turn_of(model)).content == "Hi"


async def test_a_web_page_at_the_address_names_the_setting() -> None:
    error = await error_of(Reply(body=b"<html>Sign in</html>", content_type="text/html"))
    assert isinstance(error, ModelRefused)
    assert "Check OPENAI_BASE_URL; it usually ends in /v1." in str(error)


@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_key_names_the_setting_to_change(status: int) -> None:
    error = await error_of(failure(status, "Incorrect API key"), key_setting="GROQ_API_KEY")
    assert isinstance(error, ModelRefused)
    assert f"refused the API key ({status}): Incorrect API key. Set GROQ_API_KEY to a key" in str(error)


async def test_an_unknown_model_names_the_setting_to_change() -> None:
    error = await error_of(failure(404, "model not found, try pulling it first"))
    assert isinstance(error, ModelRefused)
    assert "does not know the model 'fake' (404): model not found" in str(error)
    assert "--model or AGENT_KERNEL_MODEL" in str(error)


async def test_a_bad_request_shows_the_servers_words_but_not_a_wall_of_them() -> None:
    error = await error_of(failure(400, "maximum context length is 8192 tokens"))
    assert isinstance(error, ModelRefused)
    assert "(400): maximum context length is 8192 tokens." in str(error)
    long = str(await error_of(failure(422, "x" * 5000)))
    assert 500 <= long.count("x") + 1 <= 501


@pytest.mark.parametrize(
    "body",
    [
        b'{"error": "model is loading"}',
        b'{"detail": "model is loading"}',
        b'{"object": "error", "message": "model is loading"}',
        b"model is loading",
    ],
)
async def test_the_servers_words_are_found_in_every_shape(body: bytes) -> None:
    error = await error_of(Reply(body=body, status=400, content_type="application/json"))
    assert "(400): model is loading." in str(error)


async def test_a_redirect_is_not_followed() -> None:
    async with FakeOpenAI() as elsewhere:
        error = await error_of(Reply(status=307, headers={"location": f"{elsewhere.url}/chat/completions"}))
    assert isinstance(error, ModelRefused)
    assert "a key is sent to no other address" in str(error)
    assert elsewhere.requests == []


@pytest.mark.parametrize(
    "reply",
    [
        failure(401, f"Incorrect API key provided: {SECRET}."),
        failure(400, f"headers: {{'authorization': 'Bearer {SECRET}'}}"),
        failure(400, "x" * 490 + SECRET),
        failure(500, f"key {SECRET}", times=4),
        events(delta(content="Hi"), {"error": {"message": f"key {SECRET} expired"}}, pause=0.05),
        events(delta(content="Hi"), done=False),
        Reply(body=f"data: {SECRET}\n\n".encode(), times=4),
        Reply(body=f"<html>{SECRET}".encode(), content_type="text/html"),
    ],
)
async def test_the_key_never_leaks(reply: Reply, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with connected(reply, key=lambda: SECRET) as (server, model):
        with pytest.raises(ModelError) as caught:
            await collect(model)
        shown = [repr(model), repr(model._client.connection)]
    assert server.requests[0].headers["authorization"] == f"Bearer {SECRET}"
    error = caught.value
    assert error.__context__ is None
    assert error.__cause__ is None
    shown += ["".join(traceback.format_exception(error)), repr(error), caplog.text]
    for text in shown:
        assert SECRET not in text
        assert SECRET[:14] not in text


@pytest.mark.parametrize("echo", ["key {} is unknown", "key%3D{}"])
async def test_a_key_of_any_shape_is_hidden(echo: str) -> None:
    key = "AIzaSy/Zx81+Qv77wKq=="
    said = echo.format(quote(key, safe="") if "%" in echo else key)
    error = await error_of(failure(401, said), key=lambda: key)
    assert "AIzaSy" not in str(error)
    assert "[API key]" in str(error)


async def test_a_masked_key_in_the_servers_words_is_hidden_too() -> None:
    assert "Ab12" not in str(await error_of(failure(401, "Incorrect API key provided: sk-pr****Ab12.")))


async def test_words_that_only_look_like_keys_stay() -> None:
    error = await error_of(failure(400, "ollama has no key-value-store"), key=lambda: "ollama")
    assert "ollama has no key-value-store" in str(error)


async def test_a_password_in_the_address_is_not_shown() -> None:
    model = OpenAIModel("fake", SharedClient(Connection("http://ada:hunter2@127.0.0.1:1/v1", lambda: None)))
    assert "hunter2" not in repr(model)


@pytest.mark.parametrize("key", ["sk-… ", "sk-a b", "sk-a\nb"])
async def test_a_key_that_no_header_can_hold_is_named_not_shown(key: str) -> None:
    async with connected(key=lambda: key) as (_, model):
        with pytest.raises(ConfigurationError, match="OPENAI_API_KEY holds characters"):
            await collect(model)


async def test_a_new_key_is_used_without_a_restart() -> None:
    keys = iter(["first-key", "second-key"])
    async with connected(say("1"), say("2"), key=lambda: next(keys)) as (server, model):
        await turn_of(model)
        await turn_of(model)
    assert [one.headers["authorization"] for one in server.requests] == ["Bearer first-key", "Bearer second-key"]


async def test_what_the_environment_holds_for_openai_is_not_sent_to_other_endpoints(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.setenv("OPENAI_ADMIN_KEY", SECRET + "admin")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-secret")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-secret")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Gateway: gate-secret")
    async with connected(say("Hi"), key=lambda: None) as (other, model):
        await turn_of(model)
    assert "secret" not in str(other.requests)
    assert SECRET not in str(other.requests)
    async with connected(say("Hi"), ambient=True) as (own, model):
        await turn_of(model)
    assert own.requests[0].headers["openai-organization"] == "org-secret"
    assert own.requests[0].headers["x-gateway"] == "gate-secret"


async def test_stopping_in_the_middle_closes_the_connection() -> None:
    async with connected(streamed(TURN, hang_after=0), idle_seconds=30.0) as (server, model):
        task = asyncio.create_task(collect(model))
        await until(lambda: bool(server.requests))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: server.abandoned == 1)
    gc.collect()


async def test_many_conversations_share_one_client() -> None:
    async with connected(*[say(str(n)) for n in range(20)]) as (_, model):
        turns = await asyncio.gather(*(turn_of(model) for _ in range(20)))
    assert sorted(int(turn.content) for turn in turns) == list(range(20))


def test_two_event_loops_do_not_share_connections() -> None:
    with FakeOpenAI([say("1"), say("2")]) as server:
        client = SharedClient(Connection(server.url, lambda: FAKE_KEY))

        async def once() -> str:
            model = OpenAIModel("fake", client)
            try:
                return (await turn_of(model)).content
            finally:
                await model.aclose()

        assert asyncio.run(once()) == "1"
        assert asyncio.run(once()) == "2"


def test_back_off_has_a_ceiling() -> None:
    policy = RetryPolicy(tries=10, jitter=lambda: 0.0)
    assert [policy.delay(tried, None) for tried in range(1, 11)] == [0.5, 1, 2, 4, 8, 8, 8, 8, 8, None]


@pytest.mark.parametrize(
    "module", ["agent_kernel.models.resolver", "agent_kernel.testing", "agent_kernel.models.openai"]
)
def test_importing_models_loads_neither_openai_nor_langgraph(module: str) -> None:
    code = f"import {module}, sys; print([n for n in ('openai', 'langgraph', 'aiohttp', 'httpx2') if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
