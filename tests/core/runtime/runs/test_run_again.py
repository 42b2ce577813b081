"""A cell run again: its earlier run is left out for the model, and what its calls did is not denied."""

from pathlib import Path

from agent_kernel.protocol.ids import new_run_id
from agent_kernel.runtime.runs.queue import RunHandle
from agent_kernel.runtime.settings import RunSpec
from agent_kernel.testing import ScriptedModel, call, say
from tests.core.models.model_fixtures import speaking
from tests.core.runtime.runtime_fixtures import LOOK, RUN_PYTHON, FunctionExecutor, Stage, Stages, stage
from tests.core.runtime.turns.test_what_services_want_back import look, think, thoughts

AGAIN = "The user has run this cell again"


async def ask(stage: Stage, prompt: str, *replaces: RunHandle) -> RunHandle:
    ids = tuple(handle.run_id for handle in replaces)
    return await stage.conversation.start_run(
        RunSpec(run_id=new_run_id(), prompt=prompt, tools=(RUN_PYTHON, LOOK), replaces=ids), stage.executor
    )


def told(model: ScriptedModel, number: int = -1) -> list[str]:
    """What a request says, without what the notebook looks like."""
    return [str(m["content"] or "").split("\n\n<")[0] for m in model.requests[number].messages[1:]]


async def test_the_last_run_is_left_out_with_its_calls(stages: Stages) -> None:
    stage = await stages([call("look", call_id="a"), say("First."), say("Second.")])
    first = await ask(stage, "Go one")
    await first.wait()
    result = await (await ask(stage, "Go two", first)).wait()
    whole = await stage.conversation.view()
    messages = stage.model.requests[-1].messages
    assert [m["role"] for m in messages] == ["system", "user"]
    assert messages[1]["content"].startswith("Go two")
    assert AGAIN in messages[1]["content"]
    assert result.text == "Second."
    assert [m.role for m in whole.messages] == ["user", "assistant", "tool", "assistant", "user", "assistant"]


async def test_a_run_in_the_middle_is_left_out_whole_and_what_came_after_it_stays(stages: Stages) -> None:
    turns = [say("Zero."), call("look", call_id="a"), say("One."), call("look", call_id="b"), say("Two."), say("x")]
    stage = await stages([*turns, say("y")])
    for prompt in ("p0", "p1", "p2"):
        handle = await ask(stage, prompt)
        await handle.wait()
        if prompt == "p1":
            middle = handle
    again = await ask(stage, "p1 again", middle)
    await again.wait()
    request = stage.model.requests[-1].messages
    roles = ["user", "assistant", "user", "assistant", "tool", "assistant", "user"]
    assert [m["role"] for m in request] == ["system", *roles]
    assert [m["tool_call_id"] for m in request if m["role"] == "tool"] == ["b"]
    last = await ask(stage, "p1 once more", middle, again)
    await last.wait()
    assert [text for text in told(stage.model) if "p1" in text] == [told(stage.model)[-1]]


async def test_it_is_the_same_after_a_restart_and_ids_of_calls_are_not_given_twice(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    turns = [call("look", call_id="a"), say("One."), say("Two."), call("look", call_id="a"), say("Three.")]
    with ScriptedModel(turns) as model:
        one = await stage(model, path)
        first = await ask(one, "Go one")
        await first.wait()
        await (await ask(one, "Go two", first)).wait()
        conversation_id = one.conversation.conversation_id
        await one.close()
        again = await stage(model, path)
        conversation = await again.runtime.conversation(conversation_id)
        spec = RunSpec(run_id=new_run_id(), prompt="Go on", tools=(LOOK,))
        result = await (await conversation.start_run(spec, FunctionExecutor())).wait()
        await again.close()
    assert [m["role"] for m in model.requests[-2].messages] == ["system", "user", "assistant", "user"]
    assert [c.state for c in result.tool_calls] == ["success"]
    assert result.tool_calls[0].tool_call_id != "a"


async def test_signed_thoughts_that_came_after_it_do_not_go_back_and_later_ones_do() -> None:
    script = [look("a", "First"), say("One."), look("b", "Second"), say("Two."), look("c", "Third"), say("Three.")]
    async with speaking(*script, think(say("Four."), "Fourth"), say("Five.")) as (server, model):
        one = await stage(model)
        first = await ask(one, "p1")
        await first.wait()
        await (await ask(one, "p2")).wait()
        result = await (await ask(one, "p1", first)).wait()
        assert result.text == "Three."
        assert thoughts(server) == ["Third"]
        await (await ask(one, "p3")).wait()
        await (await ask(one, "p4")).wait()
        await one.close()
    assert thoughts(server) == ["Third", "Fourth"]
