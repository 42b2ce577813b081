"""The clock jumps by a day, forth and back. Limits and durations are measured on the monotonic clock, which such jumps
leave alone; the order of events is their `seq`. The clock on the wall is only ever shown."""

from datetime import datetime, timedelta, tzinfo
from typing import Self

import pytest

from agent_kernel.protocol import events
from agent_kernel.protocol.commands import Decision
from agent_kernel.protocol.events import CompleteEvent
from agent_kernel.protocol.vocabulary import BudgetLimits
from agent_kernel.record import render_record
from agent_kernel.runtime.tool_calls import tool_call
from agent_kernel.testing import ScriptedModel, call, say
from tests.core.runtime.runtime_fixtures import stage

DAY = timedelta(days=1)


class Clock:
    """What every module that reads the time reads from now on."""

    ahead = timedelta()

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        clock = self

        class Jumping(datetime):
            @classmethod
            def now(cls, tz: tzinfo | None = None) -> Self:
                return super().now(tz) + clock.ahead

        for module in (events, tool_call):
            monkeypatch.setattr(module, "datetime", Jumping)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


async def test_a_run_neither_ends_nor_expires_and_its_durations_are_true(clock: Clock) -> None:
    with ScriptedModel([call("run_python", code="1"), call("run_python", code="2"), say("Done.")]) as model:
        one = await stage(model, approval_seconds=60)
        handle = await one.start(budget=BudgetLimits(seconds=60))
        for number, jump in enumerate((DAY, -DAY), start=1):
            request = (await one.requests(number))[-1]
            clock.ahead = jump
            await one.conversation.route_decision(request.approval_id, Decision(approved=True))
        result = await handle.wait()
        assert result.run.status == "complete"
        assert [done.state for done in result.tool_calls] == ["success"] * 2
        assert all(0 <= (done.duration_ms or 0) < 10_000 for done in result.tool_calls)
        await one.until(lambda: one.of(CompleteEvent))
        assert len({event.timestamp[:10] for event in one.events}) > 1, "the jump was seen"
        assert [event.seq for event in one.events] == list(range(1, len(one.events) + 1))
        assert "Done." in render_record(result.run, result.messages, result.tool_calls)["text/plain"]
        await one.close()


async def test_a_call_that_waits_expires_after_its_time_and_not_at_a_jump(clock: Clock) -> None:
    with ScriptedModel([call("run_python", code="1"), say("Done.")]) as model:
        one = await stage(model, approval_seconds=0.3)
        handle = await one.start()
        [request] = await one.requests()
        clock.ahead = -DAY
        result = await handle.wait()
        assert [done.state for done in result.tool_calls] == ["expired"]
        assert request.expires_at is not None
        await one.close()
