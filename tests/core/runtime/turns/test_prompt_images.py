"""What a prompt names: pictures in the notebook's folder, and what is mentioned (`@name`, `@sales.csv`, `@[3]`)."""

import os
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.errors import ToolFailed
from agent_kernel.models.base import ModelFacts
from agent_kernel.protocol.kernel import MENTIONS_OPEN, Mention
from agent_kernel.runtime.turns.prompts import LEAN_CHARACTERS, MOST_CHARACTERS, mentioned_names, picture_names
from agent_kernel.testing import ScriptedModel, call, say
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


FACTS = ModelFacts()
SALES = Mention(name="sales", text="the variable sales: pandas.DataFrame 3 x 2")


async def asked(stages: Stages, prompt: str, *mentions: Mention, facts: ModelFacts = FACTS) -> tuple[str, Any]:
    executor = FunctionExecutor(mentions={mention.name: mention for mention in mentions})
    with ScriptedModel([say("Yes.")], facts=facts) as model:
        stage = await stages(model, executor=executor)
        result = await stage.run(prompt)
    [request] = model.requests
    return str(request.messages[-1]["content"]), result.run


@pytest.mark.parametrize(
    ("prompt", "names"),
    [
        ("Plot @sales.price by @sales.region, from @sales.", ["sales.price", "sales.region", "sales"]),
        ("Is @data/file_name.csv like @'x'? (@sales)", ["data/file_name.csv", "sales"]),
        ("Fix @[3] and @cell:4f2a-b_1: it fails", ["[3]", "cell:4f2a-b_1"]),
        ('Look at @"my file.csv", then at @übersicht', ["my file.csv", "übersicht"]),
        ("**@sales**, _@prices_ and [@sales](x)", ["sales", "prices"]),
        ("@sales has gaps.\nclass labels are missing", ["sales"]),
        ("@sales\nWhat is that?", ["sales"]),
        ("Read @../secret, @.env and @/etc/passwd", ["../secret", ".env", "/etc/passwd"]),
        # None of these is a mention.
        ("Write to ana.b+c@example.com, <ana@example.com> or ana\\_b@example.com", []),
        ("The matrix product a @ b, a@b, x[0]@y, and @ alone, @, @@ or @...", []),
        ("Why does `@sales` or\n```\n@sales\n```\nor\n\n    @sales\n\nnot work, or \\@sales?", []),
        ('@app.route("/")\n@cache\nasync def index():\n    return 1', []),
        ("@dataclass\nclass Point:\n    x: int", []),
        ("@[x] and @[12345678901]", []),
    ],
)
def test_it_is_known_what_is_a_mention(prompt: str, names: list[str]) -> None:
    assert mentioned_names(prompt) == names


@pytest.mark.parametrize("piece", ["@a ", "[@a](", "_@a_", "@a()\n"])
def test_a_prompt_of_any_shape_is_read_in_linear_time(piece: str) -> None:
    bounded(2, lambda: mentioned_names(piece * (49_000 // len(piece))))


async def test_what_is_mentioned_goes_to_the_model_with_the_prompt(stages: Stages) -> None:
    prompt = "Why are there gaps in @sales, @bob? Ask ana@example.com."
    content, run = await asked(stages, prompt, SALES)
    assert content.startswith(prompt)
    assert f"{MENTIONS_OPEN}@sales is the variable sales: pandas.DataFrame 3 x 2\n</notebook_context>" in content
    assert run.mentions == ["@sales"]
    assert run.notices == []


async def test_what_is_not_read_is_said_and_the_run_goes_on(stages: Stages) -> None:
    hidden = Mention(name=".env", refusal="hidden files are not read")
    _, run = await asked(stages, "See @.env and @sales", SALES, hidden)
    assert [notice.content for notice in run.notices] == ["@.env is not sent to the model: hidden files are not read."]
    assert run.status == "complete"
    assert run.mentions == ["@sales"]


@pytest.mark.parametrize(
    ("facts", "most"), [(ModelFacts(), MOST_CHARACTERS), (ModelFacts(context_tokens=8_192), LEAN_CHARACTERS)]
)
async def test_all_of_them_together_are_bounded(stages: Stages, facts: ModelFacts, most: int) -> None:
    many = [Mention(name=f"file{number}.txt", text="x" * 6_000) for number in range(20)]
    content, _ = await asked(stages, " ".join(f"@{one.name}" for one in many), SALES, *many, facts=facts)
    told = content.partition(MENTIONS_OPEN)[2]
    assert most - 1_000 < len(told) < most + 100
    assert "@file19.txt is" in told


async def test_a_key_in_what_is_mentioned_does_not_reach_the_model(stages: Stages) -> None:
    secret, shaped = "a-secret-of-the-server", "AKIAIOSFODNN7EXAMPLE"
    executor = FunctionExecutor(mentions={"a.txt": Mention(name="a.txt", text=f"the file: {secret} {shaped}")})
    stage = await stages([say("Yes.")], executor=executor, secrets=(secret,))
    await stage.run("See @a.txt")
    assert "the file: [API key] [API key]" in str(stage.model.requests[0].messages)


async def test_later_turns_and_a_restart_see_what_was_read_when_the_run_began(stages: Stages) -> None:
    executor = FunctionExecutor(mentions={"sales": SALES})
    stage = await stages([say("One."), say("Two.")], executor=executor)
    await stage.run("See @sales")
    executor.mentions.clear()
    stage.forget_history()
    await stage.run("And?")
    assert stage.model.requests[1].messages[1] == stage.model.requests[0].messages[1]
    assert executor.asked_mentions == [("sales",)]


async def test_a_message_to_a_busy_run_may_mention_something_too(stages: Stages) -> None:
    executor = FunctionExecutor(mentions={"sales": SALES})
    stage = await stages([call("run_python", code="1"), say("Yes.")], executor=executor)
    handle = await stage.start()
    await stage.requests()
    await stage.conversation.send_message("Look at @sales instead.")
    result = await handle.wait()
    assert SALES.text in str(stage.model.requests[-1].messages[-1]["content"])
    assert result.run.mentions == ["@sales"]
