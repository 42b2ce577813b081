"""Pictures that a prompt names: files in the notebook's folder, and nothing else."""

import os
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.errors import ToolFailed
from agent_kernel.models.base import ModelFacts
from agent_kernel.runtime.turns.prompts import picture_names
from agent_kernel.testing import ScriptedModel, say
from agent_kernel.tools.builtin.prompt_pictures import read_picture
from tests.core.runtime.runtime_fixtures import FunctionExecutor, Stages
from tests.core.tools.builtin.pictures import SEES, png_bytes, size_of
from tests.cpu import bounded


async def prompted(stages: Stages, prompt: str, model: ScriptedModel, executor: FunctionExecutor | None = None) -> Any:
    executor = executor or FunctionExecutor(files={"figure.png": png_bytes(40, 30), "my figure.png": png_bytes(20, 10)})
    stage = await stages(model, executor=executor)
    return await stage.run(prompt)


async def test_a_picture_in_the_prompt_goes_to_a_model_that_takes_pictures(stages: Stages) -> None:
    with ScriptedModel([say("A square.")], facts=SEES) as model:
        result = await prompted(stages, "What is ![the plot](figure.png)? And ![](<my figure.png>)?", model)
    [request] = model.requests
    [first, second] = request.messages[-1]["images"]
    assert [size_of(request.images[ref["digest"]]) for ref in (first, second)] == [(40, 30), (20, 10)]
    assert request.messages[-1]["content"].startswith("What is ![the plot](figure.png)?")
    assert result.run.notices == []


async def test_a_model_that_takes_none_is_told_of_the_picture_and_its_size(stages: Stages) -> None:
    with ScriptedModel([say("I can't see it.")], facts=ModelFacts()) as model:
        await prompted(stages, "What is ![](figure.png)?", model)
    [request] = model.requests
    assert request.images == {}
    content = request.messages[-1]["content"]
    assert content.endswith("[The user's message has a picture: 40 x 30 pixels. You can't see it.]")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("gone.png", "there is no such file in the notebook's folder"),
        ("https://example.org/a.png", "only files in the notebook's folder are read"),
        ("file:///etc/passwd", None),
        ("//[example.org", "only files in the notebook's folder are read"),
        ("bad.png", "it is neither PNG nor JPEG"),
    ],
)
async def test_the_user_is_told_of_a_picture_that_is_not_sent_and_the_run_goes_on(
    stages: Stages, name: str, why: str | None
) -> None:
    with ScriptedModel([say("Done.")], facts=SEES) as model:
        result = await prompted(stages, f"![]({name})", model, FunctionExecutor(files={"bad.png": b"no picture"}))
    assert result.text == "Done."
    assert model.requests[0].images == {}
    said = [notice.content for notice in result.run.notices]
    if why is None:  # Markdown itself takes no such address
        assert said == []
    else:
        assert len(said) == 1
        assert said[0].startswith(f"The picture {name!r} is not sent to the model: {why}")


def test_only_what_markdown_shows_as_a_picture_is_one() -> None:
    text = "![a](one.png) `![](code.png)` [link](two.png) ![](one.png 'title') ![b][ref]\n\n```\n![](fence.png)\n```\n"
    assert picture_names(f"{text}\n[ref]: three%20four.png") == ["one.png", "three four.png"]


def test_a_prompt_made_of_brackets_takes_no_time() -> None:
    assert bounded(5, lambda: picture_names("![" * 20_000)) == []
    assert bounded(5, lambda: picture_names("![](" * 1_900)) == []


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A notebook's folder with a picture, beside a secret."""
    root = tmp_path / "work"
    (root / "plots").mkdir(parents=True)
    (root / "plots" / "a.png").write_bytes(b"a picture")
    (tmp_path / "secret.png").write_bytes(b"a secret")
    (root / ".hidden.png").write_bytes(b"a secret")
    (root / ".git").mkdir()
    (root / ".git" / "a.png").write_bytes(b"a secret")
    return root


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("../secret.png", "only files"),
        ("/etc/hostname", "only files"),
        (".hidden.png", "hidden"),
        ("plots", "not a file"),
        ("gone.png", "no such file"),
        ("plots/a.png/b.png", "links"),
        ("a" * 300 + ".png", "too long"),
    ],
)
def test_nothing_outside_the_folder_and_nothing_hidden_is_read(folder: Path, name: str, why: str) -> None:
    with pytest.raises(ToolFailed, match=why):
        read_picture(folder, name)


def test_links_are_not_followed(folder: Path) -> None:
    (folder / "out.png").symlink_to(folder.parent / "secret.png")
    (folder / "in.png").symlink_to(folder / "plots" / "a.png")
    (folder / "away").symlink_to(folder.parent)
    for name in ("out.png", "in.png", "away/secret.png"):
        with pytest.raises(ToolFailed, match="links are not followed"):
            read_picture(folder, name)


def test_a_pipe_or_a_file_that_is_too_large_holds_nobody_up(folder: Path) -> None:
    os.mkfifo(folder / "pipe.png")
    with pytest.raises(ToolFailed, match="not a file"):
        read_picture(folder, "pipe.png")
    with (folder / "large.png").open("wb") as file:
        file.truncate(30 * 1024 * 1024)
    with pytest.raises(ToolFailed, match="31,457,280 bytes"):
        read_picture(folder, "large.png")
