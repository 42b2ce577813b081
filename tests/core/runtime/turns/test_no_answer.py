"""What is no answer ends its run in error, in words, and can be tried again. So does what a service, or what is before
it, refuses. An answer that was cut off says so."""

import pytest

from agent_kernel.models.base import LocalServer, ModelTurn, TokenUsage
from agent_kernel.models.known import Capabilities
from agent_kernel.protocol.events import CompleteEvent, MessageEvent, RunEvent, TokenEvent
from agent_kernel.protocol.run_results import RunResult
from agent_kernel.protocol.vocabulary import CUT_BY_LENGTH
from agent_kernel.record import render_record
from agent_kernel.testing import call, calls, say
from agent_kernel.testing.fake_service import Scripted
from agent_kernel.testing.wire.reply import Reply
from tests.core.models.model_apis import CHAT, WireApi, each_api
from tests.core.models.model_fixtures import connected
from tests.core.runtime.runtime_fixtures import Stage, Stages

LOOK = calls(call("look", call_id="call_look"), usage=(10, 1))
SPENT = TokenUsage(20, 5)


def record_of(result: RunResult) -> str:
    return render_record(result.run, result.messages, result.tool_calls)["text/plain"]


def shown(stage: Stage) -> list[str]:
    """The texts of the model on a card, in order."""
    texts: dict[str, str] = {}
    for event in stage.events:
        if isinstance(event, TokenEvent):
            texts[event.message_id] = texts.get(event.message_id, "") + event.content
        elif isinstance(event, MessageEvent) and event.role == "assistant":
            texts[event.message_id] = event.content
    return [text for text in texts.values() if text]


async def fails_and_is_tried_again(
    stages: Stages, api: WireApi, bad: Scripted, why: str, left: str = "", runs_on: LocalServer | None = None
) -> Stage:
    """After a call the model sends what is no answer; when it is asked again, an answer."""
    known = Capabilities(server=runs_on)
    async with connected(LOOK, bad, say("Done."), api=api, capabilities=known) as (server, model):
        stage = await stages(model)
        failed = await stage.run("Look.")
        assert failed.run.error is not None
        assert (failed.run.status, failed.run.finish_reason) == ("error", "error")
        assert (failed.run.error.code, failed.text) == ("LLM_ERROR", "")
        assert why in failed.run.error.message
        assert f"The model did not answer. {failed.run.error.message}" in record_of(failed)
        assert stage.of(CompleteEvent)[-1].error == failed.run.error
        assert shown(stage) == ([left] if left else [])
        assert failed.run.usage.total_tokens >= 11
        again = await (await stage.conversation.retry_run(failed.run.run_id)).wait()
    assert (again.run.status, again.run.finish_reason, again.text) == ("complete", "stop", "Done.")
    assert shown(stage) == ["Done."]
    *_, first, second = (server.requests[number].body for number in (1, 2))
    assert first == second
    return stage


@each_api
@pytest.mark.parametrize(
    ("turn", "why"),
    [
        (ModelTurn(" \n", usage=SPENT), "The answer is empty. "),
        (ModelTurn("", reasoning="Hm.", finish_reason="length", usage=SPENT), "limit while the model was still reason"),
    ],
    ids=["blank", "cut off in its reasoning"],
)
async def test_nothing_is_no_answer(stages: Stages, api: WireApi, turn: ModelTurn, why: str) -> None:
    stage = await fails_and_is_tried_again(stages, api, turn, why)
    ended = next(event.run for event in stage.of(RunEvent) if event.run.status == "error")
    assert ended.usage.total_tokens == 36


@pytest.mark.parametrize(
    ("runs_on", "needs"),
    [
        ("llama.cpp", "Start llama-server with --jinja"),
        (None, "Its server does not read this model's calls: vLLM needs --enable-auto-tool-choice"),
    ],
)
async def test_a_call_that_came_as_text_does_not_run_and_what_its_server_lacks_is_said(
    stages: Stages, runs_on: LocalServer | None, needs: str
) -> None:
    text = 'I\'ll run it.\n\n<tool_call>\n{"name": "run_python", "arguments": {"code": "1"}}\n</tool_call>'
    why = f"The model wrote a call of run_python as text, so it did not run. {needs}"
    stage = await fails_and_is_tried_again(stages, CHAT, say(text), why, left="I'll run it.", runs_on=runs_on)
    assert [ran.tool_name for ran in stage.executor.ran] == ["look"]


@each_api
async def test_an_answer_that_was_cut_off_after_words_says_so_and_is_complete(stages: Stages, api: WireApi) -> None:
    async with connected(ModelTurn("Half an ans", finish_reason="length"), say("wer."), api=api) as (_, model):
        stage = await stages(model)
        cut, whole = [await stage.run() for _ in range(2)]
    assert [(end.run.status, end.text) for end in (cut, whole)] == [("complete", "Half an ans"), ("complete", "wer.")]
    assert ([notice.content for notice in cut.run.notices], whole.run.notices) == ([CUT_BY_LENGTH], [])
    assert record_of(cut).index(CUT_BY_LENGTH) < record_of(cut).index("Half an ans")
    assert [event.finish_reason for event in stage.of(CompleteEvent)] == ["length", "stop"]
    assert [run.finish_reason for run in (await stage.conversation.view()).runs] == ["length", "stop"]


@each_api
async def test_a_filtered_answer_is_none_its_words_stay_on_the_card_and_its_calls_do_not_run(
    stages: Stages, api: WireApi
) -> None:
    turn = calls(call("run_python", call_id="c", code="1"), text="Half an ans")
    filtered = [*api.events_of(turn)[:-1], *api.events_of(ModelTurn("", finish_reason="content_filter"))[-1:]]
    why = {"chat": "filter stopped", "responses": "filter stopped", "messages": "service refused to answer"}[api.name]
    stage = await fails_and_is_tried_again(stages, api, Reply(body=api.event_stream(filtered)), why, left="Half an ans")
    assert [ran.tool_name for ran in stage.executor.ran] == ["look"]
