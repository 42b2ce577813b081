"""The lists of runs and calls: where each belongs, as the log knows it."""

from pathlib import Path

from agent_kernel.runtime.runtime import Runtime
from agent_kernel.runtime.settings import RunSpec
from agent_kernel.testing import ScriptedModel, say
from tests.core.runtime.runtime_fixtures import OneModel

PATHS = ("a.ipynb", "folder/a.ipynb", "folder/b.ipynb", "folders/a.ipynb", None)


async def finished(runtime: Runtime, path: str | None) -> None:
    conversation = await runtime.create_conversation(notebook_path=None)
    spec = RunSpec(run_id=f"run_{path}", prompt="Go on.", notebook_path=path, cell_id="cell_1")
    await (await conversation.start_run(spec, None)).wait()


async def test_runs_follow_the_rename_of_their_notebook_and_of_a_folder(tmp_path: Path) -> None:
    with ScriptedModel([say("Done.") for _ in PATHS]) as model:
        runtime = await Runtime.open(tmp_path / "log.sqlite", OneModel(model))
        for path in PATHS:
            await finished(runtime, path)
        await runtime.rename_notebooks("folder", "else/100%")
        await runtime.rename_notebooks("a.ipynb", "b's.ipynb")
        await runtime.rename_notebooks("nothing.ipynb", "else.ipynb")
        listed = await runtime.list_runs()
        await runtime.aclose()
    assert [run.notebook for run in listed] == [
        "b's.ipynb",
        "else/100%/a.ipynb",
        "else/100%/b.ipynb",
        "folders/a.ipynb",
        None,
    ]
    assert {run.cell_id for run in listed} == {"cell_1"}
