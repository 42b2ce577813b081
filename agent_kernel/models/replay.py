"""A model that plays a recording of version 1, with no key and no network. The tool calls in it really run.

The file format is described in `agent_kernel.models.cassette`.
"""

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

from agent_kernel.approvals.scripted import ScriptedDecision
from agent_kernel.errors import ModelRefused
from agent_kernel.models.base import (
    ModelFacts,
    ModelItem,
    ModelRequest,
    ModelTurn,
    ReasoningDelta,
    RequestedCall,
    TextDelta,
    TokenUsage,
    ToolCallDelta,
)
from agent_kernel.models.cassette import (
    After,
    Cassette,
    RecordedConversation,
    RecordedTurn,
    best_outcome,
    load_cassette,
    normalized_prompt,
    position_in,
)
from agent_kernel.models.retry import Clock, SystemClock

DEMO_CASSETTE = Path(__file__).parent / "cassettes" / "demo.json"
_WORD = re.compile(r"\s*\S+\s*$|\s*\S+|\s+$")


class ReplayModel:
    """Plays `cassette`. `pace` is the seconds between two words; 0 sends everything at once."""

    def __init__(self, cassette: Cassette, *, name: str, pace: float = 0.0, clock: Clock | None = None) -> None:
        self.cassette = cassette
        self._name = name
        self._pace = pace
        self._clock = clock or SystemClock()
        self._conversations = {normalized_prompt(one.prompt): one for one in cassette.conversations}

    @classmethod
    def from_file(cls, path: Path, *, name: str | None = None, pace: float = 0.0) -> "ReplayModel":
        """Load a cassette. Raises `ConfigurationError`."""
        return cls(load_cassette(path), name=name or f"replay:{path.name}", pace=pace)

    @property
    def name(self) -> str:
        return self._name

    @property
    def facts(self) -> ModelFacts:
        return ModelFacts()

    @property
    def recorded(self) -> bool:
        return True

    @property
    def notice(self) -> str:
        """The text that a card shows with recorded answers."""
        return self.cassette.notice

    def scripted_decisions(self, prompt: str) -> tuple[ScriptedDecision, ...]:
        """The recorded decisions on the calls for `prompt`; none for an unknown prompt."""
        conversation = self._conversations.get(normalized_prompt(prompt))
        return tuple(
            ScriptedDecision(approved=one.approved, tool_name=one.tool_name, reason=one.reason, recorded=True)
            for one in (conversation.decisions if conversation else ())
        )

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelItem]:
        """Stream the recorded turn. Raises `ModelRefused` if none is recorded."""
        turn = self._turn(request)
        for piece in _words(turn.reasoning):
            await self._wait()
            yield ReasoningDelta(piece)
        for piece in _words(turn.content):
            await self._wait()
            yield TextDelta(piece)
        for index, call in enumerate(turn.tool_calls):
            yield ToolCallDelta(index, call.name)
        yield turn

    async def aclose(self) -> None:
        pass

    async def _wait(self) -> None:
        if self._pace:
            await self._clock.sleep(self._pace)

    def _turn(self, request: ModelRequest) -> ModelTurn:
        prompt, step, outcomes = position_in(request.messages)
        conversation = self._conversations.get(prompt)
        if conversation is None:
            raise ModelRefused(self._unknown(prompt))
        after = best_outcome(step, outcomes)
        recorded = _choose(conversation, step, after)
        if recorded is None:
            raise ModelRefused(
                f"{self._name} has no recorded answer to {conversation.prompt!r} at step {step} after {after}. "
                f"{_REAL_MODEL}"
            )
        return _as_turn(recorded)

    def _unknown(self, prompt: str) -> str:
        known = "\n".join(f"- {one.prompt}" for one in self.cassette.conversations) or "- (none)"
        asked = prompt if len(prompt) <= 200 else prompt[:199] + "…"
        return f"{self._name} is a recording and can't answer {asked!r}. It answers:\n{known}\n{_REAL_MODEL}"


_REAL_MODEL = (
    "To ask anything else, use a real model: set OPENAI_API_KEY (or OPENAI_BASE_URL and AGENT_KERNEL_MODEL for Ollama, "
    "vLLM or LM Studio), restart, and leave out --model or name one with it."
)


def _choose(conversation: RecordedConversation, step: int, after: After) -> RecordedTurn | None:
    """The turn for an outcome. A successful edited call falls back to the turn for a successful one."""
    wanted = [after, "success", "any"] if after == "edited" else [after, "any"]
    turns = [turn for turn in conversation.turns if turn.step == step]
    return next((turn for one in wanted for turn in turns if turn.after == one), None)


def _as_turn(recorded: RecordedTurn) -> ModelTurn:
    return ModelTurn(
        content=recorded.content,
        reasoning=recorded.reasoning,
        tool_calls=tuple(RequestedCall("", call.name, _text(call.arguments)) for call in recorded.tool_calls),
        usage=TokenUsage(recorded.usage.input_tokens, recorded.usage.output_tokens),
    )


def _text(arguments: dict[str, object] | str) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


def _words(text: str) -> list[str]:
    return _WORD.findall(text)
