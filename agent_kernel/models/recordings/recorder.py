"""A model that passes on another model's answers and records them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from agent_kernel.approvals.scripted import ScriptedDecision
from agent_kernel.errors import InvalidArguments, RecordingDiffers
from agent_kernel.models.base import (
    LearnsFacts,
    Model,
    ModelFacts,
    ModelItem,
    ModelRequest,
    ModelTurn,
    Notice,
    facts_of,
)
from agent_kernel.models.recordings.asked import Question, Reader, mapped
from agent_kernel.models.recordings.file import RecordingFile
from agent_kernel.models.recordings.format import Answer, DecisionLine, Header, RecordedCall, RecordedUsage, Turn
from agent_kernel.models.recordings.names import TurnsToRecord
from agent_kernel.models.recordings.player import Finder, Found, Occurrences, RecordedDecisions, items_of, unfit
from agent_kernel.models.redaction import scrub
from agent_kernel.own_thread import in_own_thread
from agent_kernel.tools.arguments import canonical, digest, parse
from agent_kernel.version import __version__


def record(path: Path, model: Model, secrets: Callable[[], Sequence[str]] = tuple) -> "RecordingModel":
    """Wrap `model` so that its turns are written to the recording at `path`, in place of older ones of the same runs.

    `secrets` are left out of the file, as is all that looks like an API key. Raises `ConfigurationError` if there is
    something other than a recording at `path`.
    """
    return RecordingModel(path, model, secrets=secrets)


class RecordingModel:
    """Records a model. It plays the turns that are not to be recorded again."""

    def __init__(
        self,
        path: Path,
        model: Model,
        *,
        turns: TurnsToRecord = TurnsToRecord(),  # noqa: B008 -- frozen
        secrets: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        """Raises `ConfigurationError`."""
        self._model = model
        self.name = model.name
        self.recorded = model.recorded
        self._turns_to_record = turns
        self._secrets = secrets
        self._writing = asyncio.Lock()
        header = Header(title=path.stem, model=model.name, made_with=__version__, images=facts_of(model).images)
        self._file = RecordingFile(path, header)
        self._reader = Reader(self._file.header.patterns, secrets)
        self._finder = Finder(self._file.at_start) if self._file.at_start is not None else None
        self._occurrences = Occurrences()
        self._latest: dict[str, int] = {}
        """The number of the latest run of each prompt."""
        plays = self._finder is not None and turns != TurnsToRecord()
        self._decisions = RecordedDecisions(self._finder.recording.decisions if plays and self._finder else ())

    @property
    def facts(self) -> ModelFacts:
        """The model's facts without a context size, because a recording needs whole conversations, not shortened
        ones."""
        return replace(facts_of(self._model), context_tokens=None)

    async def learn(self) -> None:
        """See `LearnsFacts`."""
        if isinstance(self._model, LearnsFacts):
            await self._model.learn()

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelItem]:
        """Stream a turn of the other model, or one that is kept. Raises what the other model raises,
        `RecordingDiffers` where a turn that is kept does not fit, and `RecordingNotWritten`."""
        question = await asyncio.to_thread(self._reader.read, request)
        occurrence = self._occurrences.number(question)
        self._latest[question.prompt] = occurrence
        kept = await in_own_thread(lambda: self._kept(question, request))
        if kept is not None:
            if kept.why:
                await self._write(question, kept.placed.turn.occurrence, kept.placed.turn.answer, request)
                yield Notice(f"Turn {kept.placed.number} was kept, though what is asked has changed.\n{kept.why}")
            for item in items_of(kept.placed):
                yield item
            return
        async for item in self._model.stream(request):
            if isinstance(item, ModelTurn):
                await self._write(question, occurrence, self._answer(item), request)
            yield item

    def scripted_decisions(self, prompt: str) -> tuple[ScriptedDecision, ...]:
        """The recorded decisions for `prompt`, which are for the calls of the turns that are kept. Behind them those of
        the model that is recorded, where it plays a recording itself."""
        recorded = self._decisions.next_run(self._reader.prompt(prompt))
        find = getattr(self._model, "scripted_decisions", None)
        return recorded if find is None else (*recorded, *find(prompt))

    async def record_decision(self, decision: ScriptedDecision, *, prompt: str) -> None:
        """Write a decision on a call of the latest run of `prompt`. Raises `RecordingNotWritten`."""
        prompt = self._reader.prompt(prompt)
        line = DecisionLine.of(self._without_keys(decision), prompt=prompt, occurrence=self._latest.get(prompt, 1))
        async with self._writing:
            await in_own_thread(lambda: self._file.add_decision(line))

    async def aclose(self) -> None:
        await self._model.aclose()

    def _kept(self, question: Question, request: ModelRequest) -> Found | None:
        """The recorded turn that is played instead of asking the model. Raises `RecordingDiffers`."""
        if self._finder is None or self._turns_to_record == TurnsToRecord():
            return None
        found = self._finder.find(question, request)
        if found is None or self._turns_to_record.covers(found.placed.number):
            return None
        if found.why and found.placed.number < self._turns_to_record.first:
            raise RecordingDiffers(unfit(self._finder.recording, found))
        return found

    async def _write(self, question: Question, occurrence: int, answer: Answer, request: ModelRequest) -> None:
        turn = Turn(
            prompt=question.prompt,
            occurrence=occurrence,
            step=question.step,
            asked=question.asked,
            answer=answer,
        )
        replaces_later = self._turns_to_record.last is None
        async with self._writing:
            await in_own_thread(
                lambda: self._file.add_turn(turn, question.settings, request.images, replaces_later=replaces_later)
            )

    def _answer(self, turn: ModelTurn) -> Answer:
        return Answer(
            content=self._scrubbed(turn.content),
            reasoning=self._scrubbed(turn.reasoning),
            calls=tuple(
                RecordedCall(name=call.name, arguments=self._arguments(call.arguments)) for call in turn.tool_calls
            ),
            finish_reason=turn.finish_reason,
            failure=self._scrubbed(turn.failure),
            usage=RecordedUsage(input_tokens=turn.usage.input_tokens, output_tokens=turn.usage.output_tokens),
        )

    def _arguments(self, arguments: str) -> dict[str, Any] | str:
        """A call's arguments without keys. They are left out of the texts in them and not of the JSON, which would not
        be JSON any more where a key is taken for longer than it is."""
        try:
            clean: dict[str, Any] = mapped(parse(arguments), self._scrubbed)
        except (InvalidArguments, RecursionError):
            return self._scrubbed(arguments)
        return clean

    def _without_keys(self, decision: ScriptedDecision) -> ScriptedDecision:
        """The decision on the call as it is recorded. Where keys were left out of its arguments, they are not what the
        decision was bound to, so it is bound to what is left: no digest of a key gets into the file, and of all calls
        it covers the one that the recording makes."""
        clean: ScriptedDecision = replace(
            decision,
            **{
                name: mapped(getattr(decision, name), self._scrubbed)
                for name in ("tool_name", "reason", "arguments", "edited_input", "answer")
            },
        )
        if clean.arguments is None or clean.arguments == decision.arguments:
            return clean
        return replace(clean, digest=digest(canonical(clean.arguments)))

    def _scrubbed(self, text: str) -> str:
        return scrub(text, tuple(self._secrets()))
