"""A run's view, and what the log has of it, where the log takes nothing for a while."""

from typing import Any

import pytest

from agent_kernel.errors import LogUnavailable
from agent_kernel.protocol.events import CompleteEvent, ErrorEvent
from agent_kernel.runtime.runs import lifecycle
from agent_kernel.testing import call, say
from tests.core.runtime.runtime_fixtures import FunctionExecutor, Stages


async def test_a_notice_that_could_not_be_written_ends_no_run_and_is_written_with_what_follows(stages: Stages) -> None:
    async def act(_: Any, __: Any) -> str:
        await stage.set_read_only(True)
        [run] = stage.runs
        run.notify("Something was done otherwise.")
        await stage.set_read_only(False)  # the notice was before that in the log's queue
        return "ran"

    stage = await stages([call("run_python", code="1"), say("Done.")], executor=FunctionExecutor(act))
    result = await stage.run(policy="allow")
    assert (result.run.status, result.text) == ("complete", "Done.")
    assert [(one.state, one.result) for one in result.tool_calls] == [("success", "ran")]
    [kept] = (await stage.conversation.view()).runs
    assert [notice.content for notice in kept.notices] == ["Something was done otherwise."]


async def test_a_run_whose_end_cannot_be_written_has_not_ended_until_it_is(
    stages: Stages, monkeypatch: pytest.MonkeyPatch
) -> None:
    written, takes = lifecycle.write_end, False

    def refused(*arguments: Any, **named: Any) -> Any:
        if not takes:
            raise LogUnavailable("The disk is full.")
        return written(*arguments, **named)

    monkeypatch.setattr(lifecycle, "write_end", refused)
    monkeypatch.setattr(lifecycle, "_FIRST_PAUSE", 0.01)
    stage = await stages([say("Done.")])
    await stage.start()
    await stage.until(lambda: [event for event in stage.of(ErrorEvent) if event.run_id is None])
    [run] = stage.runs
    run.notify("Seen meanwhile.")
    [kept] = (await stage.conversation.view()).runs
    assert (run.view.status, kept.status, kept.ended_at) == ("running", "running", None)
    takes = True
    await stage.until(lambda: stage.of(CompleteEvent))
    [kept] = (await stage.conversation.view()).runs
    assert (kept.status, kept.finish_reason) == ("complete", "stop")
