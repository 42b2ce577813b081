"""Records a real model's answers as a cassette, for playback with `replay:PATH`."""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import orjson

from agent_kernel.models.base import Model, ModelFacts, ModelItem, ModelRequest, ModelTurn, facts_of
from agent_kernel.models.cassette import (
    Cassette,
    RecordedCall,
    RecordedConversation,
    RecordedTurn,
    RecordedUsage,
    best_outcome,
    load_cassette,
    position_in,
)


def record_cassette(path: Path, model: Model) -> "RecordingModel":
    """Wrap `model` so that each of its turns is added to the cassette at `path`, which is rewritten each time.

    A turn for the same prompt, step and outcome is replaced; the rest of an existing cassette stays. Raises
    `ConfigurationError` if `path` is something other than a cassette.
    """
    existing = load_cassette(path) if path.exists() else Cassette(title=path.stem, model=model.name)
    return RecordingModel(path, model, existing)


class RecordingModel:
    """A model that passes on another model's answers and records them."""

    def __init__(self, path: Path, model: Model, cassette: Cassette) -> None:
        self._path = path
        self._model = model
        self._writing = asyncio.Lock()
        self.cassette = cassette

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def facts(self) -> ModelFacts:
        """The model's facts without a context size, because a recording needs whole conversations, not shortened
        ones."""
        return replace(facts_of(self._model), context_tokens=None)

    @property
    def recorded(self) -> bool:
        return self._model.recorded

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelItem]:
        """Stream the other model's turn. Raises what it raises, and `OSError` if the cassette can't be written."""
        async for item in self._model.stream(request):
            if isinstance(item, ModelTurn):
                async with self._writing:
                    self._add(request, item)
                    await asyncio.to_thread(_write, self._path, self.cassette)
            yield item

    async def aclose(self) -> None:
        await self._model.aclose()

    def _add(self, request: ModelRequest, turn: ModelTurn) -> None:
        prompt, step, outcomes = position_in(request.messages)
        new = RecordedTurn(
            step=step,
            after=best_outcome(step, outcomes),
            content=turn.content,
            reasoning=turn.reasoning,
            tool_calls=tuple(RecordedCall(name=call.name, arguments=call.arguments) for call in turn.tool_calls),
            usage=RecordedUsage(input_tokens=turn.usage.input_tokens, output_tokens=turn.usage.output_tokens),
        )
        conversations = {one.prompt: one for one in self.cassette.conversations}
        old = conversations.get(prompt) or RecordedConversation(prompt=prompt, turns=())
        kept = [one for one in old.turns if (one.step, one.after) != (new.step, new.after)]
        turns = sorted([*kept, new], key=lambda one: one.step)
        conversations[prompt] = old.model_copy(update={"turns": tuple(turns)})
        self.cassette = self.cassette.model_copy(update={"conversations": tuple(conversations.values())})


def _write(path: Path, cassette: Cassette) -> None:
    """Replace the file atomically, so that no reader sees half a cassette."""
    content = orjson.dumps(cassette.model_dump(mode="json"), option=orjson.OPT_INDENT_2)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content + b"\n")
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
