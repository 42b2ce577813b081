"""Turns of a model with what it thought, and a model that can be replaced between two runs."""

from dataclasses import dataclass, replace
from typing import Any

from agent_kernel.models.base import Model, ModelTurn
from agent_kernel.testing import call


@dataclass
class Changing:
    """A model in whose place another can be put."""

    model: Model

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)


def think(turn: ModelTurn, thought: str) -> ModelTurn:
    return replace(turn, reasoning=thought)


def look(call_id: str, thought: str) -> ModelTurn:
    return think(call("look", call_id=call_id), thought)


def run_code(call_id: str, thought: str) -> ModelTurn:
    return think(call("run_python", call_id=call_id, code="1"), thought)
