"""What a prompt names: pictures in the notebook's folder, and what is mentioned (`@name`, `@sales.csv`, `@[3]`)."""

import os
from pathlib import Path

import pytest

from agent_kernel.errors import ToolFailed
from agent_kernel.models.base import ModelFacts, ModelRequest
from agent_kernel.protocol.kernel import MENTIONS_OPEN, Mention
from agent_kernel.protocol.views import RunView
from agent_kernel.runtime.turns.prompts import mentioned_names, picture_names
from agent_kernel.testing import say
from agent_kernel.tools.builtin.prompt_pictures import read_picture
from tests.core.runtime.runtime_fixtures import FunctionExecutor, Stages
from tests.core.tools.builtin.pictures import SEES, png_bytes, size_of
from tests.cpu import bounded

FILES = {"figure.png": png_bytes(40, 30), "my figure.png": png_bytes(20, 10), "bad.png": b"no picture"}


async def prompted(
    stages: Stages, prompt: str, *mentions: Mention, facts: ModelFacts = SEES
) -> tuple[ModelRequest, str, RunView]:
    """What the model is asked, what the prompt became, and the run."""
    executor = FunctionExecutor(files=FILES, mentions={mention.name: mention for mention in mentions})
    stage = await stages([say("Yes.")], facts=facts, executor=executor)
    run = (await stage.run(prompt)).run
    assert run.status == "complete"
    [request] = stage.model.requests
    return request, str(request.messages[-1]["content"]), run


async def test_a_picture_in_the_prompt_goes_to_a_model_that_takes_pictures(stages: Stages) -> None:
    prompt = "What is ![the plot](figure.png)? And ![](<my figure.png>)?"
    request, content, run = await prompted(stages, prompt)
    sizes = [size_of(request.images[ref["digest"]]) for ref in request.messages[-1]["images"]]
    assert sizes == [(40, 30), (20, 10)]
    assert (content.startswith(prompt), run.notices) == (True, [])


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("https://example.org/a.png", "only files in the notebook's folder are read"),
        ("bad.png", "it is neither PNG nor JPEG"),
    ],
)
async def test_the_user_is_told_of_a_picture_that_is_not_sent_and_the_run_goes_on(
    stages: Stages, name: str, why: str
) -> None:
    request, _, run = await prompted(stages, f"![]({name}) ![](file:///etc/passwd)")  # which is no Markdown
    assert request.images == {}
    [notice] = run.notices
    assert notice.content.startswith(f"The picture {name!r} is not sent to the model: {why}")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A notebook's folder with a picture, links, a pipe and a large file, beside a secret."""
    root = tmp_path / "work"
    (root / "plots").mkdir(parents=True)
    (root / "plots" / "a.png").write_bytes(b"a picture")
    (tmp_path / "secret.png").write_bytes(b"a secret")
    (root / ".hidden.png").write_bytes(b"a secret")
    (root / ".git").mkdir()
    (root / ".git" / "a.png").write_bytes(b"a secret")
    (root / "out.png").symlink_to(tmp_path / "secret.png")
    (root / "in.png").symlink_to(root / "plots" / "a.png")
    (root / "away").symlink_to(tmp_path)
    os.mkfifo(root / "pipe.png")
    with (root / "large.png").open("wb") as file:
        file.truncate(30 * 1024 * 1024)
    return root


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("../secret.png", "only files"),
        (".git/a.png", "hidden"),
        *((name, "links are not followed") for name in ("out.png", "away/secret.png")),
        ("pipe.png", "not a file"),
        ("large.png", "31,457,280 bytes"),
    ],
)
def test_no_file_outside_the_folder_hidden_linked_or_too_large_is_read(folder: Path, name: str, why: str) -> None:
    with pytest.raises(ToolFailed, match=why):
        read_picture(folder, name)


SALES = Mention(name="sales", text="the variable sales: pandas.DataFrame 3 x 2")


@pytest.mark.parametrize(
    ("prompt", "names"),
    [
        ("Plot @sales.price by **@sales.region**, from @sales.", ["sales.price", "sales.region", "sales"]),
        ('Fix @[3] and @cell:4f2a-b_1: it reads @"my file.csv"', ["[3]", "cell:4f2a-b_1", "my file.csv"]),
        # None of these is a mention.
        ("Write to ana.b+c@example.com; the matrix product a @ b, a@b, x[0]@y, and @ alone", []),
        ("Why does `@sales` or\n```\n@sales\n```\nor\n\n    @sales\n\nnot work, or \\@sales?", []),
        ('@app.route("/")\n@cache\nasync def index():\n    return 1', []),
    ],
)
def test_it_is_known_what_is_a_mention(prompt: str, names: list[str]) -> None:
    assert mentioned_names(prompt) == names


@pytest.mark.parametrize("piece", ["[@a](", "![]("])
def test_a_prompt_of_any_shape_is_read_in_linear_time(piece: str) -> None:
    bounded(5, lambda: mentioned_names(piece * (49_000 // len(piece))))
    bounded(5, lambda: picture_names(piece * 1_900))


async def test_what_is_mentioned_goes_to_the_model_with_the_prompt(stages: Stages) -> None:
    prompt = "Why are there gaps in @sales, @bob? Ask ana@example.com."
    _, content, run = await prompted(stages, prompt, SALES)
    assert content.startswith(prompt)
    assert f"{MENTIONS_OPEN}@sales is the variable sales: pandas.DataFrame 3 x 2\n</notebook_context>" in content
    assert (run.mentions, run.notices) == (["@sales"], [])


async def test_a_key_in_what_is_mentioned_does_not_reach_the_model(stages: Stages) -> None:
    secret, shaped = "a-secret-of-the-server", "AKIAIOSFODNN7EXAMPLE"
    executor = FunctionExecutor(mentions={"a.txt": Mention(name="a.txt", text=f"the file: {secret} {shaped}")})
    stage = await stages([say("Yes.")], executor=executor, secrets=(secret,))
    await stage.run("See @a.txt")
    assert "the file: [API key] [API key]" in str(stage.model.requests[0].messages)
