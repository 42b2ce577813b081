"""The shipped test doubles: they fail where a test and the code disagree, and never otherwise."""

import asyncio
import gc
import json
import socket
import subprocess
import sys
import urllib.request
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import agent_kernel.testing
from agent_kernel.approvals.scripted import ScriptedDecision
from agent_kernel.errors import ModelRefused, ModelUnavailable
from agent_kernel.models.base import ModelItem, ModelRequest, ModelTurn, RequestedCall, TextDelta
from agent_kernel.models.resolver import Endpoint, ModelResolver
from agent_kernel.protocol.vocabulary import ApiName
from agent_kernel.testing import (
    FakeOpenAI,
    ScriptedModel,
    ScriptMismatch,
    VirtualClock,
    approve_all,
    call,
    calls,
    deny_all,
    requested,
    say,
    script,
)
from agent_kernel.testing.fake_anthropic import FAKE_ANTHROPIC_KEY, FakeAnthropic
from agent_kernel.testing.fake_openai import read_script
from agent_kernel.testing.wire.chat import streamed
from agent_kernel.testing.wire.reply import failure
from agent_kernel.tools.declaration import ToolDeclaration
from tests.core.models.model_fixtures import REQUEST, collect, connected, turn_of
from tests.waiting import until


def test_a_client_that_connects_as_the_fake_server_stops_leaves_nothing_open() -> None:
    for _ in range(2):
        server = FakeOpenAI().start()
        address = urlsplit(server.url)
        with socket.create_connection((address.hostname, address.port)):
            server.stop()
    gc.collect()  # what is left open warns


async def test_a_scripted_model_says_what_was_written_in_odd_pieces() -> None:
    turn = calls(call("run_python", code="1 + 1"), text="Let me compute that.", reasoning="Easy.")
    with ScriptedModel([turn]) as model:
        assert await turn_of(model) == turn
    items = await collect(ScriptedModel([turn]))
    assert len([item for item in items if isinstance(item, TextDelta)]) > 4


async def test_a_scripted_turn_may_be_a_function_or_an_error() -> None:
    def echo(request: ModelRequest) -> ModelTurn:
        return say(request.messages[-1]["content"])

    with ScriptedModel([echo, ModelUnavailable("gone"), say("back")]) as model:
        assert (await turn_of(model)).content == "How many penguins are there?"
        with pytest.raises(ModelUnavailable, match="gone"):
            await turn_of(model)
        assert (await turn_of(model)).content == "back"
    assert [request.messages for request in model.requests] == [REQUEST.messages] * 3


async def test_a_scripted_turn_may_be_streamed_and_break_off() -> None:
    async def breaks_off(request: ModelRequest) -> AsyncGenerator[ModelItem, None]:
        yield TextDelta("Half an ans")
        raise ModelUnavailable("gone")

    with ScriptedModel([breaks_off]) as model:
        items = model.stream(REQUEST)
        assert await anext(items) == TextDelta("Half an ans")
        with pytest.raises(ModelUnavailable):
            await anext(items)


async def test_a_script_may_begin_again_and_summaries_are_no_part_of_it() -> None:
    with ScriptedModel([say("1"), say("2")], repeat=True, summary=say("short")) as model:
        asking = replace(REQUEST, tools=(ToolDeclaration("look", "Look.", {}),))
        said = [(await turn_of(model, request)).content for request in (asking, REQUEST, asking, asking)]
    assert said == ["1", "short", "2", "1"]
    assert (len(model.requests), len(model.summary_requests)) == (3, 1)


async def test_an_unexpected_request_fails() -> None:
    model = ScriptedModel([say("Hi")])
    await turn_of(model)
    with pytest.raises(ScriptMismatch, match=r"All 1 written turns were said.*role 'user': How many penguins"):
        await turn_of(model)
    with pytest.raises(ScriptMismatch, match="1 more turns than were written"):
        model.assert_consumed()


async def test_a_turn_that_nobody_asked_for_fails() -> None:
    model = ScriptedModel([say("1"), say("2")])
    with pytest.raises(ScriptMismatch, match="1 of 2 written turns were never asked for"), model:
        await turn_of(model)


def test_an_error_in_the_test_itself_is_not_hidden() -> None:
    with pytest.raises(KeyError), ScriptedModel([say("1")]):
        raise KeyError
    with pytest.raises(KeyError), FakeOpenAI([say("1")]):
        raise KeyError


async def test_the_fake_server_fails_on_unexpected_and_on_unconsumed_answers() -> None:
    with pytest.raises(ScriptMismatch, match="1 more answers"):
        await _ask_once_too_often()
    with pytest.raises(ScriptMismatch, match="1 of 1 written answers were never asked for"):
        async with connected(say("Hi")):
            pass
    with pytest.raises(ScriptMismatch, match="1 of 1"):
        async with connected(failure(429, times=2), clock=VirtualClock()) as (server, _):
            await asyncio.to_thread(_post, server.url)


async def _ask_once_too_often() -> None:
    async with connected() as (_, model):
        with pytest.raises(ModelRefused, match="no more answers"):
            await turn_of(model)


def _post(url: str) -> None:
    request = urllib.request.Request(f"{url}/chat/completions", b"{}", {"Content-Type": "application/json"})
    with pytest.raises(urllib.error.HTTPError):
        urllib.request.urlopen(request)


async def test_the_fake_server_can_look_at_the_request() -> None:
    async with connected(lambda body: say(body["model"]), lambda _: streamed(say("2"))) as (_, model):
        assert (await turn_of(model)).content == "fake"
        assert (await turn_of(model)).content == "2"


async def test_a_program_finds_the_fake_server_by_its_environment() -> None:
    with FakeOpenAI([say("Hi")], repeat=True) as server:
        resolver = ModelResolver(environ=server.environment())
        for _ in range(3):
            assert (await turn_of(resolver.resolve())).content == "Hi"
        await resolver.aclose()


async def test_a_program_finds_the_fake_of_anthropics_service_by_its_environment() -> None:
    with FakeAnthropic([say("Hi")], repeat=True) as server:
        for names in (["ANTHROPIC_API_KEY"], ["ANTHROPIC_AUTH_TOKEN"]):
            variables = server.environment("claude-sonnet-5-5")
            key = variables.pop("ANTHROPIC_API_KEY")
            resolver = ModelResolver(environ={**variables, **dict.fromkeys(names, key)})
            assert (await turn_of(resolver.resolve())).content == "Hi"
            await resolver.aclose()
    assert {request.headers["authorization"] for request in server.requests} == {f"Bearer {FAKE_ANTHROPIC_KEY}"}


def test_a_taken_port_is_an_error() -> None:
    with FakeOpenAI() as server:
        port = int(server.url.split(":")[2].split("/")[0])
        with pytest.raises(OSError, match="in use"):
            FakeOpenAI(port=port).start()


@pytest.mark.parametrize(("program", "api"), [("fake_openai", "chat"), ("fake_anthropic", "messages")])
async def test_the_fake_server_runs_as_a_program(tmp_path: Path, program: str, api: ApiName) -> None:
    path = tmp_path / "script.json"
    turns = [
        {"status": 429, "retry_after": "0.01", "times": 2},
        {"call": "run_python", "arguments": {"code": "1 + 1"}},
        {"calls": [{"call": "a", "arguments": {"id": 1}}, {"call": "b"}], "say": "Look."},
        {"say": "Two."},
    ]
    path.write_text(json.dumps(turns))
    command = [sys.executable, "-m", f"agent_kernel.testing.{program}", "--port", "0", "--script", str(path)]
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        url = (await process.stdout.readline()).decode().strip()
        resolver = ModelResolver(default="it/fake", endpoints=[Endpoint("it", url, api=api)])
        assert (await turn_of(resolver.resolve())).tool_calls[0].arguments == '{"code": "1 + 1"}'
        both = await turn_of(resolver.resolve())
        assert [(one.name, one.arguments) for one in both.tool_calls] == [("a", '{"id": 1}'), ("b", "{}")]
        assert (await turn_of(resolver.resolve())).content == "Two."
        await resolver.aclose()
    finally:
        process.terminate()
        await process.wait()


def test_a_script_with_an_unknown_entry_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "script.json"
    path.write_text('[{"sing": "la"}]')
    with pytest.raises(ValueError, match="no turn of a script"):
        read_script(path)


def test_calls_are_easy_to_write() -> None:
    assert call("f", x=1) == ModelTurn("", tool_calls=(RequestedCall("", "f", '{"x": 1}'),))
    assert call("f", call_id="c").tool_calls[0].id == "c"
    assert [one.name for one in calls(call("f"), call("g")).tool_calls] == ["f", "g"]
    assert requested("f", {"é": 1}).arguments == '{"é": 1}'


def test_decisions_are_easy_to_write() -> None:
    assert script([True, "not that table", ("run_shell", False), ("f", True, "ok"), ScriptedDecision(True)]) == (
        ScriptedDecision(True),
        ScriptedDecision(False, reason="not that table"),
        ScriptedDecision(False, tool_name="run_shell"),
        ScriptedDecision(True, tool_name="f", reason="ok"),
        ScriptedDecision(True),
    )
    assert approve_all(times=2) == (ScriptedDecision(True),) * 2
    assert set(deny_all("no")) == {ScriptedDecision(False, reason="no")}


async def test_virtual_time_moves_by_itself_or_by_hand() -> None:
    clock = VirtualClock(start=100.0)
    await clock.sleep(30)
    assert (clock.now(), clock.slept) == (130.0, [30])
    manual = VirtualClock(start=0.0, auto=False)
    woken: list[float] = []

    async def sleeper(seconds: float) -> None:
        await manual.sleep(seconds)
        woken.append(seconds)

    async with asyncio.TaskGroup() as tasks:
        for seconds in (5, 1, 3):
            tasks.create_task(sleeper(seconds))
        await until(lambda: manual.sleepers == 3)
        manual.advance(3)
        await until(lambda: woken == [1, 3])
        assert manual.sleepers == 1
        manual.advance(10)
    assert woken == [1, 3, 5]


def test_everything_that_is_promised_is_exported() -> None:
    for name in agent_kernel.testing.__all__:
        assert getattr(agent_kernel.testing, name)
    with pytest.raises(AttributeError):
        _ = agent_kernel.testing.nonsense
