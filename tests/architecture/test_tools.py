"""Each built-in tool has what carries it out, and the committed recordings fit the tools of today."""

import inspect
from pathlib import Path
from types import SimpleNamespace

import pytest

from agent_kernel.models.recordings.asked import mapped
from agent_kernel.models.recordings.format import load
from agent_kernel.models.recordings.normalise import Normaliser
from agent_kernel.notebook import offered_tools
from agent_kernel.runtime.state.transcript import SYSTEM_PROMPT
from agent_kernel.tools.builtin.declarations import ASK_USER, BUILTIN_NAMES, BUILTIN_TOOLS, CHANGES_CELLS, READS_FILES
from agent_kernel.tools.registry import ToolRegistry

RECORDINGS = sorted((Path(__file__).parents[2] / "notebooks" / "recordings").glob("*.jsonl"))
RUN_AS_A_CELL = "run_python"


def test_each_built_in_tool_has_its_function_in_the_kernel() -> None:
    functions = offered_tools._functions(SimpleNamespace())
    assert {*functions, *CHANGES_CELLS, RUN_AS_A_CELL, ASK_USER} == set(BUILTIN_NAMES)


@pytest.mark.parametrize("name", offered_tools.IN_FOLDER)
def test_a_tool_that_looks_into_the_folder_takes_the_arguments_that_it_declares(name: str) -> None:
    declared = next(tool.parameters["properties"] for tool in BUILTIN_TOOLS if tool.name == name)
    inspect.signature(offered_tools.IN_FOLDER[name]).bind(offered_tools.FOLDER, **declared, approved=None)


@pytest.mark.parametrize("name", offered_tools.IN_FOLDER)
def test_a_tool_that_reads_files_asks_outside_of_the_folder(name: str) -> None:
    declared = next(tool for tool in BUILTIN_TOOLS if tool.name == name)
    assert not declared.read_only or (declared.approval == "dynamic" and name in READS_FILES)


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_a_committed_recording_fits_the_tools_and_the_system_prompt_of_today(path: Path) -> None:
    """If not: `python -m tests.demos NAME` records it again."""
    clean = Normaliser().text
    offered = ToolRegistry(BUILTIN_TOOLS).openai_format()
    today = {tool["function"]["name"]: mapped(tool["function"], clean) for tool in offered}
    recording = load(path)
    for settings in recording.settings.values():
        system, declared = recording.compared(settings)
        assert list(system) == clean(SYSTEM_PROMPT).split("\n")
        assert {name: tool for name, tool in declared.items() if name in today and tool != today[name]} == {}
