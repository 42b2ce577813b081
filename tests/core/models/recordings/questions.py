"""Requests as the runtime makes them, for tests of recordings."""

from pathlib import Path
from typing import Any

from agent_kernel.models.base import ModelRequest, ModelTurn, WireMessage
from agent_kernel.models.recordings.format import load
from agent_kernel.models.recordings.player import RecordedModel
from agent_kernel.models.recordings.recorder import record
from agent_kernel.protocol.vocabulary import OnChange
from agent_kernel.runtime.state.transcript import with_context
from agent_kernel.testing import ScriptedModel
from tests.core.models.model_fixtures import turn_of

SYSTEM = "You are an agent in a notebook."
TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": "run_python", "description": "Runs code.", "parameters": {}}}
]


def context(variables: str = "- df: DataFrame (3, 2)", cells: str = "", folder: str = "/srv/work") -> str:
    place = f"You work in the notebook a.ipynb, with Python 3.11.4, in the folder {folder}."
    listed = f"The user's variables:\n{variables}"
    return "\n\n".join([place, listed, *([f"The cells that were run last:\n{cells}"] if cells else [])])


def user(prompt: str, told: str | None = None) -> WireMessage:
    return {"role": "user", "content": with_context(prompt, context() if told is None else told)}


def called(code: str, *results: str) -> list[WireMessage]:
    """A turn with a call, and its results."""
    function = {"name": "run_python", "arguments": f'{{"code": "{code}"}}'}
    asked = [{"id": f"c{number}", "type": "function", "function": function} for number in range(len(results))]
    told = [{"role": "tool", "tool_call_id": f"c{number}", "content": text} for number, text in enumerate(results)]
    return [{"role": "assistant", "content": "", "tool_calls": asked}, *told]


def request(*messages: WireMessage, conversation: str = "one", **more: Any) -> ModelRequest:
    system = {"role": "system", "content": SYSTEM}
    return ModelRequest([system, *messages], **{"tools": TOOLS, "cache_key": conversation, **more})


async def recorded(path: Path, *pairs: tuple[ModelRequest, ModelTurn]) -> Path:
    """Record these answers to these requests in one session."""
    model = record(path, ScriptedModel([turn for _, turn in pairs]))
    for asked, _ in pairs:
        await turn_of(model, asked)
    return path


async def replayed(path: Path, asked: ModelRequest, on_change: OnChange = "strict") -> ModelTurn:
    return await turn_of(RecordedModel(load(path), name="replay:x", on_change=on_change), asked)
