"""What Agent Kernel imports in a kernel is what is installed, whatever is in the notebook's folder."""

import base64
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.notebooks.kernel import TestKernel

pytestmark = [pytest.mark.kernel, pytest.mark.slow]

TRAPS = """
    PIL.py aiohttp.py anywidget.py defusedxml.py genai_prices.py httpx2.py ipywidgets.py jsonschema.py langchain_core.py
    langgraph/__init__.py langsmith.py markdown_it.py openai.py orjson.py platformdirs.py pydantic/__init__.py
    requests.py tomllib.py tree_sitter.py xxhash.py stringprep.py
"""
TRAP = "from pathlib import Path\nwith Path({log!r}).open('a') as file: print(__name__, file=file)\nvalue = 7\n"
RUN = """
from agent_kernel.testing import ScriptedModel, call, calls, say
import agent_kernel as ak

def helped() -> int:
    "Get a number."
    import of_a_tool
    return of_a_tool.value

model = ScriptedModel([
    call("run_python", code="import of_a_call\\nprint(of_a_call.value)"),
    calls(call("helped"), call("list_files", pattern="*.png"), call("write_file", path="notes.md", content="x")),
    say("It is **7**."),
])
agent = ak.Agent(model=model, tools=[helped, "run_python", "list_files", "write_file"], policy="allow")
run = agent.run("Go, see ![](a.png)")
[(one.state, one.result) for one in run.tool_calls]
"""
PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of modules that say when they are imported, to which the kernel is started."""
    folder = tmp_path / "work"
    for name in (*TRAPS.split(), "mine.py", "of_a_tool.py", "of_a_call.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(TRAP.format(log=str(tmp_path / "log")))
    (folder / "a.png").write_bytes(base64.b64decode(PICTURE))
    monkeypatch.chdir(folder)
    (tmp_path / "log").touch()
    return tmp_path / "log"


def test_a_run_imports_nothing_from_the_notebooks_folder_and_the_users_code_does(
    start_kernel: Callable[..., TestKernel], log: Path
) -> None:
    kernel = start_kernel()
    kernel.run("%load_ext agent_kernel")
    states = kernel.value(RUN)
    assert states.count("'success'") == 4, states
    assert log.read_text().split() == ["of_a_call", "of_a_tool"]
    assert kernel.value("import mine\nmine.value") == "7"
    assert kernel.value("import PIL\n'site-packages' in PIL.__file__") == "True"
