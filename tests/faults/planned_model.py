"""A model that needs no script: what it says next follows from the conversation, so it can be asked again at any time.

The prompt carries the plan as JSON: `{"steps": [2, 1], "tool": "append", "pause": 0.002}` asks for two calls at once,
then for one, then answers. A step may also name its calls: `[["edit_cell", {"cell_id": "c1"}]]`. What a person wants
once more it asks for at once, with the same arguments. Each request gets calls with ids of their own, as a paid
model's would be.
"""

import itertools
import json
import re
from typing import Any

from agent_kernel.models.base import ModelTurn
from agent_kernel.testing.scripted_model import call, calls, say
from agent_kernel.testing.wire.chat import streamed
from agent_kernel.testing.wire.reply import Reply

DONE = "All of it is done."
AGAIN = re.compile(r"^Try this call again: (\w+) with (\{.*\})$", re.MULTILINE)


class PlannedModel:
    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self.pause = 0.0
        """Seconds between the pieces of an answer, where the plan names none."""

    def __call__(self, body: dict[str, Any]) -> Reply:
        plan, done, again = _progress(body["messages"])
        turn = self._repeat(again) if again else self._turn(plan, done)
        return streamed(turn, pause=plan.get("pause", self.pause))

    def _repeat(self, again: list[tuple[str, dict[str, Any]]]) -> ModelTurn:
        asked = [call(tool, call_id=f"call_{self._new()}", **arguments) for tool, arguments in again]
        return calls(*asked, text="Once more.")

    def _turn(self, plan: dict[str, Any], done: int) -> ModelTurn:
        if done >= len(plan["steps"]):
            return say(DONE)
        step = plan["steps"][done]
        named = step if isinstance(step, list) else [(plan["tool"], self._arguments(plan)) for _ in range(step)]
        asked = [call(tool, call_id=f"call_{self._new()}", **arguments) for tool, arguments in named]
        return calls(*asked, text="Let me see.")

    def _new(self) -> str:
        return f"{next(self._numbers):06d}"

    def _arguments(self, plan: dict[str, Any]) -> dict[str, Any]:
        mark = f"mark{self._new()}"
        if plan["tool"] != "run_python":
            return {"mark": mark}
        path, seconds = plan["counter"], plan.get("seconds", 0)
        code = f"import time; print({mark!r}, file=open({path!r}, 'a'), flush=True); time.sleep({seconds})"
        return {"code": code}


def mark_of(tool_input: str) -> str:
    """The mark that a call leaves in the counter file."""
    found = re.search(r"mark\d+", tool_input)
    assert found is not None, tool_input
    return found.group()


def _progress(messages: list[dict[str, Any]]) -> tuple[dict[str, Any], int, list[tuple[str, dict[str, Any]]]]:
    """The plan of the last prompt that has one, how many of its steps were asked for, and the calls that a person
    wants once more."""
    plan: dict[str, Any] = {"steps": [], "tool": "append"}
    done = 0
    again: list[tuple[str, dict[str, Any]]] = []
    for message in messages:
        if message["role"] == "user" and (found := re.search(r'\{"steps".*\}', str(message["content"]))):
            plan, done, again = json.loads(found.group()), 0, []
        elif message["role"] == "user" and (found := AGAIN.search(str(message["content"]))):
            again.append((found[1], json.loads(found[2])))
        elif message["role"] == "assistant" and message.get("tool_calls"):
            done, again = done + (not again), []
    return plan, done, again
