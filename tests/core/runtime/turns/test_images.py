"""What calls show goes to a model that takes pictures, is in the log once, and goes with its conversation."""

from pathlib import Path
from typing import Any

from agent_kernel.errors import ModelUnavailable
from agent_kernel.models.base import ModelFacts, ModelRequest
from agent_kernel.protocol.calls import Outcome
from agent_kernel.protocol.commands import Decision
from agent_kernel.protocol.events import ToolCompleteEvent, ToolSeenEvent
from agent_kernel.protocol.views import OutputView
from agent_kernel.runtime.settings import RunSpec
from agent_kernel.testing import ScriptedModel, call, calls, say
from tests.core.runtime.runtime_fixtures import FunctionExecutor, Stage, Stages, second_life, stage
from tests.core.tools.builtin.pictures import SEES, draws, in_base64, plot, size_of

PLOT = call("run_python", code="plot()", call_id="a")
SIZE = "64 x 48 pixels"


def seeing(*turns: Any, facts: ModelFacts = SEES) -> ScriptedModel:
    return ScriptedModel(turns, facts=facts)


def refs(request: ModelRequest) -> list[tuple[str, int]]:
    """Whose pictures a request has, and how many."""
    return [(m.get("tool_call_id", m["role"]), len(m["images"])) for m in request.messages if m.get("images")]


async def plotted(stages: Stages, model: ScriptedModel, *outputs: OutputView, **options: Any) -> tuple[Stage, Any]:
    stage = await stages(model, executor=FunctionExecutor(draws(*(outputs or (plot(),)))), **options)
    result = await stage.run(policy="allow")
    return stage, result


async def stored(stage: Stage) -> int:
    (count,) = await stage.log.read(lambda sql: sql.execute("SELECT count(*) FROM images").fetchone())
    return int(count)


async def test_a_model_that_takes_pictures_is_given_the_plot_next_to_the_calls_result(stages: Stages) -> None:
    with seeing(PLOT, say("A red square.")) as model:
        stage, result = await plotted(stages, model)
    [first, second] = model.requests
    assert (first.images, refs(first)) == ({}, [])
    [ref] = second.messages[-1]["images"]
    assert (ref["media_type"], ref["width"], ref["height"]) == ("image/png", 64, 48)
    assert size_of(second.images[ref["digest"]]) == (64, 48)
    assert second.messages[-1]["content"] == "<Figure>"
    assert [one.seen_images for one in result.tool_calls] == [1]
    assert [(event.tool_call_id, event.images) for event in stage.of(ToolSeenEvent)] == [("a", 1)]
    [view] = (await stage.conversation.view()).tool_calls
    assert view.seen_images == 1


async def test_the_same_picture_is_in_the_log_once_and_goes_with_the_last_conversation_that_has_it(
    stages: Stages, tmp_path: Path
) -> None:
    turns = [PLOT, say("One."), call("run_python", code="plot()", call_id="b"), say("Two.")]
    with seeing(*turns, PLOT, say("Three.")) as model:
        stage, _ = await plotted(stages, model, path=tmp_path / "log.sqlite")
        await stage.run(policy="allow")
        other = await stage.runtime.create_conversation()
        spec = RunSpec(run_id="r", prompt="Go", tools=(), policy="allow")
        await (await other.start_run(spec, stage.executor)).wait()
    assert await stored(stage) == 1
    with seeing(PLOT, say("Four.")) as model:
        stage.use(model)
        third = await stage.runtime.create_conversation()
        handle = await third.start_run(
            RunSpec(run_id="s", prompt="Go", tools=(await stage.conversation.tools()), policy="allow"), stage.executor
        )
        await handle.wait()
    assert await stored(stage) == 1
    await stage.runtime.delete_conversation(third.conversation_id)
    assert await stored(stage) == 1
    await stage.runtime.delete_conversation(stage.conversation.conversation_id)
    assert await stored(stage) == 0


async def test_a_model_that_takes_none_is_told_that_a_plot_was_shown_and_its_size(stages: Stages) -> None:
    with seeing(PLOT, say("I can't see it."), facts=ModelFacts()) as model:
        stage, result = await plotted(stages, model)
    last = model.requests[-1]
    assert last.messages[-1]["content"] == f"<Figure>\n[A plot was shown to the user: {SIZE}. You can't see it.]"
    assert (last.images, refs(last)) == ({}, [])
    assert await stored(stage) == 0
    assert [one.seen_images for one in result.tool_calls] == [0]
    assert stage.of(ToolSeenEvent) == []


async def test_a_site_can_keep_pictures_to_itself(stages: Stages) -> None:
    with seeing(PLOT, say("I can't see it.")) as model:
        stage, result = await plotted(stages, model, send_images=False)
    assert model.requests[-1].messages[-1]["content"].endswith(f"{SIZE}. You can't see it.]")
    assert model.requests[-1].images == {}
    assert await stored(stage) == 0
    assert result.tool_calls[0].seen_images == 0


async def test_what_is_no_picture_is_a_line_and_no_error(stages: Stages) -> None:
    fake = OutputView(kind="display", data={"image/png": in_base64(b"no picture at all")})
    text = OutputView(kind="display", data={"image/svg+xml": "<svg/>", "text/html": "<img src='data:image/png;...'>"})
    odd = OutputView(kind="display", data={"image/png": ["a", "list"]})
    with seeing(PLOT, say("Done.")) as model:
        _, result = await plotted(stages, model, fake, text, odd, plot())
    assert result.run.status == "complete"
    last = model.requests[-1]
    assert refs(last) == [("a", 1)]
    lines = last.messages[-1]["content"].splitlines()
    assert lines[1] == "[An image was shown to the user that can't be given to you: it is neither PNG nor JPEG.]"
    assert len(lines) == 2


async def test_what_was_cleared_or_replaced_is_not_sent(stages: Stages) -> None:
    gone = (plot(10, 10), OutputView(kind="clear"))
    replaced = (plot(20, 10, display_id="d"), plot(40, 30), plot(30, 20, display_id="d"))
    with seeing(PLOT, say("Done.")) as model:
        await plotted(stages, model, *gone, *replaced)
    assert [(ref["width"], ref["height"]) for ref in model.requests[-1].messages[-1]["images"]] == [(30, 20), (40, 30)]


async def test_of_a_long_conversation_the_oldest_plots_are_left_out_several_at_once(stages: Stages) -> None:
    steps = 24
    turns = [call("run_python", code=f"plot({number})", call_id=f"c{number}") for number in range(steps)]
    sizes = iter(range(10, 200))

    def act(call: Any, emit: Any) -> Outcome:
        emit(plot(next(sizes), 10))
        return Outcome("success", "<Figure>")

    with seeing(*turns, say("Done.")) as model:
        stage = await stages(model, executor=FunctionExecutor(act))
        await stage.run(policy="allow")
    counts = [len(request.images) for request in model.requests]
    assert counts == [*range(21), 10, 11, 12, 13]
    assert sum(map(len, [request.images for request in model.requests[-1:]])) == 13
    first = model.requests[-1].messages[3]
    assert first["content"] == "<Figure>\n[A plot was shown to the user: 10 x 10 pixels. You can't see it.]"
    # Between two such moments what a request begins with stays as it is.
    assert model.requests[-1].messages[: len(model.requests[-2].messages)] == model.requests[-2].messages


async def test_a_restart_before_the_model_is_asked_keeps_the_picture(tmp_path: Path) -> None:
    executor = FunctionExecutor(draws(plot()))
    path = tmp_path / "log.sqlite"
    turn = calls(PLOT, call("run_python", code="more()", call_id="b"))
    before = await stage(seeing(turn), path, executor)
    await before.start()
    first, second = await before.requests(2)
    await before.conversation.route_decision(first.approval_id, Decision(approved=True))
    await before.until(lambda: before.of(ToolCompleteEvent))
    with seeing(say("A red square.")) as model:
        async with second_life(path, model, before, executor) as (conversation, [handle]):
            await conversation.route_decision(second.approval_id, Decision(approved=False))
            result = await handle.wait()
    assert refs(model.requests[0]) == [("a", 1)]
    assert len(model.requests[0].images) == 1
    assert [one.seen_images for one in result.tool_calls] == [1, 0]
    with seeing(say("Still red.")) as model:  # a message that the log has as the number of its call
        async with second_life(path, model, before, executor) as (conversation, _):
            await (await conversation.start_run(RunSpec(run_id="r", prompt="Sure?"), executor)).wait()
    assert refs(model.requests[0]) == [("a", 1)]


async def test_a_run_that_ends_before_its_model_answers_does_not_claim_that_it_has_seen_anything(
    stages: Stages,
) -> None:
    with seeing(PLOT, ModelUnavailable("The model is away.")) as model:
        stage, result = await plotted(stages, model)
    assert result.run.status == "error"
    assert [one.seen_images for one in result.tool_calls] == [0]
    with seeing(say("A red square.")) as model:
        stage.use(model)
        result = await (await stage.conversation.retry_run(result.run.run_id)).wait()
    assert refs(model.requests[0]) == [("a", 1)]
    assert [one.seen_images for one in result.tool_calls] == [1]
