"""What calls show goes to a model that takes pictures, is in the log once, and goes with its conversation."""

from pathlib import Path
from typing import Any

from agent_kernel.models.base import ModelRequest
from agent_kernel.protocol.calls import Outcome
from agent_kernel.protocol.events import ToolSeenEvent
from agent_kernel.protocol.views import OutputView
from agent_kernel.testing import call, say
from tests.core.runtime.runtime_fixtures import FunctionExecutor, Stage, Stages
from tests.core.tools.builtin.pictures import SEES, draws, plot, size_of

PLOT = call("run_python", code="plot()", call_id="a")


def refs(request: ModelRequest) -> list[tuple[str, int]]:
    """Whose pictures a request has, and how many."""
    return [(m.get("tool_call_id", m["role"]), len(m["images"])) for m in request.messages if m.get("images")]


async def plotted(stages: Stages, answer: Any, *outputs: OutputView, **options: Any) -> tuple[Stage, Any]:
    """A run that plots, and then has this answer."""
    executor = FunctionExecutor(draws(*(outputs or (plot(),))))
    stage = await stages([PLOT, answer], executor=executor, **{"facts": SEES} | options)
    return stage, await stage.run(policy="allow")


async def stored(stage: Stage) -> int:
    (count,) = await stage.log.read(lambda sql: sql.execute("SELECT count(*) FROM images").fetchone())
    return int(count)


async def test_a_model_that_takes_pictures_is_given_the_plot_next_to_the_calls_result(stages: Stages) -> None:
    stage, result = await plotted(stages, say("A red square."))
    [first, second] = stage.model.requests
    assert (first.images, refs(first)) == ({}, [])
    [ref] = second.messages[-1]["images"]
    assert (ref["media_type"], ref["width"], ref["height"]) == ("image/png", 64, 48)
    assert size_of(second.images[ref["digest"]]) == (64, 48)
    assert second.messages[-1]["content"] == "<Figure>"
    assert [one.seen_images for one in result.tool_calls] == [1]
    assert [(event.tool_call_id, event.images) for event in stage.of(ToolSeenEvent)] == [("a", 1)]
    assert [one.seen_images for one in await stage.calls()] == [1]


async def test_the_same_picture_is_in_the_log_once_and_goes_with_the_last_conversation_that_has_it(
    stages: Stages, tmp_path: Path
) -> None:
    turns = [turn for _ in range(3) for turn in (PLOT, say("One."))]
    stage = await stages(turns, facts=SEES, path=tmp_path / "log.sqlite", executor=FunctionExecutor(draws(plot())))
    first = stage.conversation
    for conversation in (first, first, await stage.runtime.create_conversation()):
        stage.conversation = conversation
        await stage.run(policy="allow")
    kept = [await stored(stage)]
    for conversation in (stage.conversation, first):
        await stage.runtime.delete_conversation(conversation.conversation_id)
        kept.append(await stored(stage))
    assert kept == [1, 1, 0]


async def test_of_a_long_conversation_the_oldest_plots_are_left_out_several_at_once(stages: Stages) -> None:
    turns = [call("run_python", code=f"plot({number})", call_id=f"c{number}") for number in range(24)]
    sizes = iter(range(10, 200))

    def act(call: Any, emit: Any) -> Outcome:
        emit(plot(next(sizes), 10))
        return Outcome("success", "<Figure>")

    stage = await stages([*turns, say("Done.")], facts=SEES, executor=FunctionExecutor(act))
    await stage.run(policy="allow")
    *_, before, last = stage.model.requests
    assert [len(request.images) for request in stage.model.requests] == [*range(21), 10, 11, 12, 13]
    assert stage.told()[0] == "<Figure>\n[A plot was shown to the user: 10 x 10 pixels. You can't see it.]"
    # Between two such moments what a request begins with stays as it is.
    assert last.messages[: len(before.messages)] == before.messages
