"""Notebooks to run without a page."""

from pathlib import Path

import nbformat

SETUP = """import agent_kernel as ak, asyncio
from agent_kernel.errors import ModelUnavailable, RunFailed
from agent_kernel.testing import ScriptedModel, call, calls, say
down = ModelUnavailable("The service is down. Try it later.")
def agent(*turns, **options):
    return ak.Agent(model=ScriptedModel([*turns]), **options)
def allowing(*turns, **options):
    return agent(*turns, policy="allow", **options)
async def silent(request):
    await asyncio.sleep(600)
    yield
"""
UNAWAITED = 'run = allowing(call("run_python", code="1"), down).start("Sum the table")'


def write_notebook(path: Path, *cells: str, tags: tuple[str, ...] = (), kernel: str = "python3") -> Path:
    """Write a notebook of these code cells. The tags are those of the first one. Each has an output of earlier."""
    made = [nbformat.v4.new_code_cell(source) for source in cells]
    for cell in made:
        cell.outputs = [nbformat.v4.new_output("stream", text="from an earlier time")]
    made[0].metadata["tags"] = list(tags)
    path.parent.mkdir(parents=True, exist_ok=True)
    spec = {"name": kernel, "display_name": kernel, "language": "python"}  # papermill wants one
    nbformat.write(nbformat.v4.new_notebook(cells=made, metadata={"kernelspec": spec}), path)
    return path


def printed(path: Path) -> list[str]:
    """What the code cells of a notebook have printed, an error by its name."""
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    return [
        "".join(out.get("text", out.get("ename", "")) for out in cell.outputs if out.output_type in ("stream", "error"))
        for cell in cells
    ]
