"""The model is asked on while an outcome is on its way to the disk; nothing that follows is kept without it."""

from agent_kernel.protocol.events import TokenEvent
from agent_kernel.testing import ScriptedModel, call, say
from tests.core.runtime.runtime_fixtures import Stages

REFUSED = """
CREATE TEMP TRIGGER refused BEFORE UPDATE ON tool_calls WHEN NEW.state = 'success'
BEGIN SELECT raise(ABORT, 'refused'); END
"""


async def test_an_answer_to_an_outcome_that_is_not_in_the_log_is_not_kept(stages: Stages) -> None:
    with ScriptedModel([call("run_python", code="1", call_id="a"), say("It is 1."), say("Let me see.")]) as model:
        stage = await stages(model)
        await stage.log.read(lambda sql: sql.execute(REFUSED) and None)
        broken = await (await stage.start(policy="allow")).wait()
        assert [ran.tool_call_id for ran in stage.executor.ran] == ["a"]
        assert (broken.run.status, broken.text) == ("error", "")
        [ended] = broken.tool_calls
        assert ended.state == "unknown"
        assert not stage.of(TokenEvent)
        await (await stage.start("And now?")).wait()
    told = model.requests[-1].messages
    assert [message["role"] for message in told] == ["system", "user", "assistant", "tool", "user"]
    assert told[3]["content"].startswith("Outcome unknown.")


async def test_an_outcome_is_shown_before_what_the_model_says_to_it(stages: Stages) -> None:
    with ScriptedModel([call("run_python", code="1"), call("run_python", code="2"), say("Done.")]) as model:
        stage = await stages(model)
        result = await (await stage.start(policy="allow")).wait()
    kinds = [event.type for event in stage.events if event.type in ("tool_complete", "usage", "token", "complete")]
    assert kinds == ["usage", "tool_complete", "usage", "tool_complete", "token", "complete"]
    assert [call.state for call in result.tool_calls] == ["success", "success"]
