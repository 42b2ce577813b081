"""The lists of runs and calls: where each belongs, as the log knows it."""

import sqlite3
from pathlib import Path

from agent_kernel.runtime.runtime import Brain
from agent_kernel.runtime.settings import RunSpec
from agent_kernel.testing import ScriptedModel, call, say
from tests.core.runtime.runtime_fixtures import OneModel

PATHS = ("a.ipynb", "folder/a.ipynb", "folder/b.ipynb", "folders/a.ipynb", None)


async def finished(brain: Brain, path: str | None) -> None:
    conversation = await brain.create_conversation(notebook_path=None)
    spec = RunSpec(run_id=f"run_{path}", prompt="Go on.", notebook_path=path, cell_id="cell_1")
    await (await conversation.start_run(spec, None)).wait()


async def test_runs_follow_the_rename_of_their_notebook_and_of_a_folder(tmp_path: Path) -> None:
    with ScriptedModel([say("Done.") for _ in PATHS]) as model:
        brain = await Brain.open(tmp_path / "log.sqlite", OneModel(model))
        for path in PATHS:
            await finished(brain, path)
        await brain.rename_notebooks("folder", "else/100%")
        await brain.rename_notebooks("a.ipynb", "b's.ipynb")
        await brain.rename_notebooks("nothing.ipynb", "else.ipynb")
        listed = await brain.list_runs()
        await brain.aclose()
    assert [run.notebook for run in listed] == [
        "b's.ipynb",
        "else/100%/a.ipynb",
        "else/100%/b.ipynb",
        "folders/a.ipynb",
        None,
    ]
    assert {run.cell_id for run in listed} == {"cell_1"}


async def test_a_run_that_another_version_wrote_does_not_keep_the_others_from_being_listed(tmp_path: Path) -> None:
    with ScriptedModel([call("no_such_tool"), say("Done."), say("Done.")]) as model:
        brain = await Brain.open(tmp_path / "log.sqlite", OneModel(model))
        await finished(brain, "a.ipynb")
        await finished(brain, "b.ipynb")
        await brain.aclose()
    with sqlite3.connect(tmp_path / "log.sqlite") as sql:
        sql.execute("UPDATE runs SET spec = 'not JSON' WHERE run_id = 'run_a.ipynb'")
    brain = await Brain.open(tmp_path / "log.sqlite", OneModel(ScriptedModel([])))
    await brain.rename_notebooks("b.ipynb", "c.ipynb")
    assert [run.notebook for run in await brain.list_runs()] == [None, "c.ipynb"]
    assert [one.prompt for one in await brain.list_calls()] == ["Go on."]
    await brain.aclose()
