"""What was recorded is answered again, and what differs is said with both sides, file, line and remedy."""

import base64
import io
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, ImageDraw

from agent_kernel.errors import RecordingDiffers
from agent_kernel.models.base import IMAGES, ModelRequest, Notice
from agent_kernel.models.images import plain_picture
from agent_kernel.models.recordings.format import load
from agent_kernel.models.recordings.player import RecordedModel
from agent_kernel.models.recordings.recorder import record
from agent_kernel.protocol.vocabulary import RECORDING_CHANGED
from agent_kernel.testing import ScriptedModel, call, say
from tests.core.models.model_fixtures import collect, turn_of
from tests.core.models.recordings.questions import TOOLS, called, context, recorded, replayed, request, user

SUM = "Sum the column n"


SUMMED = "   n\na  1\nb  3\nsum 4"


def summed(result: str = SUMMED, **more: Any) -> ModelRequest:
    return request(user(SUM), *called("df.n.sum()", result), **more)


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    """A run of two steps."""
    first = request(user(SUM))
    return await recorded(tmp_path / "sum.jsonl", (first, call("run_python", code="df.n.sum()")), (summed(), say("4")))


async def message(path: Path, asked: ModelRequest) -> str:
    with pytest.raises(RecordingDiffers) as raised:
        await replayed(path, asked)
    return str(raised.value)


async def test_what_was_recorded_is_answered_again(path: Path) -> None:
    turn = await replayed(path, request(user(SUM)))
    assert [(one.name, one.arguments) for one in turn.tool_calls] == [("run_python", '{"code": "df.n.sum()"}')]
    assert (await replayed(path, summed())).content == "4"


CHANGED = "   n\na  9\nb  3\nsum 12"


async def test_a_number_in_a_result_that_changed_stops_with_both_sides_file_line_and_remedy(path: Path) -> None:
    said = await message(path, summed(CHANGED))
    assert said.startswith(RECORDING_CHANGED)
    rows = [[side.strip() for side in line.split("|")] for line in said.splitlines() if "|" in line]
    assert rows == [["recorded", "now"], ["a  1", "a  9"], ["sum 4", "sum 12"]]
    place = f"{path}:4 (turn 2, step 1 of 'Sum the column n')"
    for words in (place, "agent-kernel record NOTEBOOK --turn 2", "--on-change warn"):
        assert words in said


async def test_with_warn_the_recorded_answer_is_given_with_a_notice(path: Path) -> None:
    items = await collect(RecordedModel(load(path), name="x", on_change="warn"), summed(CHANGED))
    [notice] = [item.content for item in items if isinstance(item, Notice)]
    assert notice.startswith(RECORDING_CHANGED)
    assert "sum 12" in notice
    assert items[-1] == say("4")


async def test_another_declaration_and_another_system_text_are_differences(path: Path) -> None:
    tools = [{"type": "function", "function": {**TOOLS[0]["function"], "description": "Runs any code."}}]
    assert "Runs any code." in await message(path, request(user(SUM), tools=tools))
    asked = ModelRequest([{"role": "system", "content": "You are a pirate."}, user(SUM)], tools=TOOLS)
    assert "You are a pirate." in await message(path, asked)


OTHER = {"type": "function", "function": {"name": "search", "description": "Searches.", "parameters": {}}}


@pytest.mark.parametrize(
    "tools",
    [
        [*TOOLS, OTHER],
        [OTHER | {"function": {"name": "search", "parameters": {"type": "object"}}}, *TOOLS, OTHER],
        TOOLS,
    ],
    ids=["added", "with other parameters, twice", "taken away"],
)
async def test_tools_that_a_recording_never_calls_make_no_difference(
    path: Path, tmp_path: Path, tools: list[dict[str, object]]
) -> None:
    assert (await replayed(path, summed(tools=tools))).content == "4"
    path = await recorded(tmp_path / "two.jsonl", (request(user(SUM), tools=[*TOOLS, OTHER]), say("4")))
    assert (await replayed(path, request(user(SUM), tools=tools))).content == "4"
    said = await message(path, request(user("Sum the column m"), tools=tools))
    assert "In the prompt:" in said
    assert "the tools" not in said


@pytest.mark.parametrize(
    "told",
    [
        context(cells="[2] %%agent --model replay:sum.jsonl\nSum the column n"),
        context(cells="[7] x = 9\n  -> 9"),
        context(folder="/home/else/where"),
        context().replace("3.11.4", "3.13.0").replace("a.ipynb", "b.ipynb"),
    ],
    ids=["the agent's line", "other cells", "another folder", "another Python and name"],
)
async def test_the_last_cells_and_the_place_of_the_notebook_make_no_difference(path: Path, told: str) -> None:
    assert (await replayed(path, request(user(SUM, told)))).tool_calls


async def test_a_prompt_that_occurs_twice_has_two_answers(tmp_path: Path) -> None:
    """In one conversation what was asked before tells them apart; in two, their order."""
    once, answered = user("Go on"), {"role": "assistant", "content": "one"}
    asked = [request(once), request(once, answered, once), request(once, conversation="two")]
    path = await recorded(tmp_path / "a.jsonl", *zip(asked, [say("one"), say("two"), say("three")], strict=True))
    player = RecordedModel(load(path), name="x")
    assert [(await turn_of(player, one)).content for one in asked] == ["one", "two", "three"]
    assert (await turn_of(player, asked[0])).content == "one"  # the cell is run again


KEY = "sk-abcdef0123456789abcdef"
ARGUMENTS: dict[str, dict[str, Any]] = {
    "a word": {"code": f"key = '{KEY}'"},
    "at the end of a text": {"code": "headers = {'Authorization': 'Bearer abcdef0123456'}"},
    "escaped": {"code": 'login(say "hush")'},
}


@pytest.mark.parametrize("arguments", ARGUMENTS.values(), ids=ARGUMENTS)
async def test_keys_are_not_written_and_arguments_without_them_are_still_arguments(
    tmp_path: Path, arguments: dict[str, Any]
) -> None:
    path, other = tmp_path / "a.jsonl", "ghp_0123456789abcdefghijABCDEFGHIJ012345"
    model = record(path, ScriptedModel([call("run_python", **arguments), say(KEY)]), lambda: ['say "hush"'])
    asked = request(user(f"Use {KEY}"))
    await turn_of(model, asked)
    await turn_of(model, request(user('Now say "hush"'), *called("x", f"{other} {KEY}")))
    text = path.read_text()
    assert not any(secret in text for secret in ("abcdef0123", other, "hush"))
    assert '"content":"[API key]"' in text
    [played] = (await replayed(path, asked)).tool_calls
    assert "[API key]" in json.loads(played.arguments)["code"]


def shown(peak: int) -> ModelRequest:
    """A request with a plot of this peak."""
    image, file = Image.new("RGB", (640, 480), "white"), io.BytesIO()
    ImageDraw.Draw(image).line([(50, 400), (300, peak), (600, 400)], fill="blue", width=2)
    image.save(file, "PNG")
    picture = plain_picture(file.getvalue())
    asked, result = called("plot()", "A plot.")
    data = base64.b64encode(picture.data).decode()
    return request(user(SUM), asked, result | {IMAGES: [asdict(picture.ref)]}, images={picture.ref.digest: data})


async def test_images_are_files_beside_the_recording_and_compared_by_what_they_show(tmp_path: Path) -> None:
    asked = shown(100)
    path = await recorded(tmp_path / "plot.jsonl", (asked, say("A peak.")))
    assert [one.stem for one in (tmp_path / "plot.images").iterdir()] == [*asked.images]
    assert RecordedModel(load(path), name="x").facts.images
    assert (await replayed(path, asked)).content == "A peak."
    assert (await replayed(path, shown(101))).content == "A peak."
    said = await message(path, shown(200))
    assert "In an image of the result of run_python:" in said
    assert "plot.images/" in said
