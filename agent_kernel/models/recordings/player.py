"""A model that plays a recording, with no key and no network. The tool calls in it really run.

Turns that were written for an outcome (`after`), so that a recording can go on from each decision of the reader's, are
found by prompt, step and what became of the calls of the step before; nothing else is compared.
"""

import json
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import count
from pathlib import Path

from agent_kernel.approvals.scripted import ScriptedDecision
from agent_kernel.errors import SET_WHERE_IT_STARTS, ModelRefused, RecordingDiffers
from agent_kernel.models.base import (
    Clock,
    ModelFacts,
    ModelItem,
    ModelRequest,
    ModelTurn,
    Notice,
    ReasoningDelta,
    RequestedCall,
    TextDelta,
    TokenUsage,
    ToolCallDelta,
)
from agent_kernel.models.recordings.asked import Question, Reader
from agent_kernel.models.recordings.differences import left_by_other_cells, parts, show
from agent_kernel.models.recordings.format import After, DecisionLine, Placed, Recording
from agent_kernel.models.recordings.server_results import RecordedServerTools
from agent_kernel.own_thread import in_own_thread
from agent_kernel.protocol.vocabulary import RECORDING_CHANGED, OnChange
from agent_kernel.tools.outcome_texts import DENIED_PREFIX, EDITED_NOTE, NOT_DONE_PREFIXES

_ALIKE = 0.6
"""How similar a prompt must be to count as a changed one, from 0 to 1."""
_PROMPT_CHARACTERS, _MOST_LISTED = 80, 20
"""How much of a prompt, and how many prompts, a message has."""
_MOST_PROMPTS, _COMPARED = 500, 2_000
"""How many turns, and characters of their prompts, are looked through for a similar one."""
_WORD = re.compile(r"\s*\S+\s*$|\s*\S+|\s+$")
RUN_IN_ORDER = (
    "If cells were run again or in another order: restart the kernel, and run them all from the first to the last "
    "(in JupyterLab: Kernel > Restart Kernel and Run All Cells).\n"
)
_WEIGHT: tuple[After, ...] = ("denied", "error", "edited")
_REAL_MODEL = (
    "To ask anything else, use a real model: set OPENAI_API_KEY (or OPENAI_BASE_URL and AGENT_KERNEL_MODEL for Ollama, "
    f"vLLM or LM Studio) {SET_WHERE_IT_STARTS} Leave out --model then, or name a model with it."
)
GO_ON = "To go on with the recorded answers, use --on-change warn."


class Occurrences:
    """Numbers the runs of each prompt, from 1. A cell that is run again keeps its number."""

    def __init__(self) -> None:
        self._places: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)

    def number(self, question: Question) -> int:
        places, place = self._places[question.prompt], (question.conversation, question.index)
        if place not in places:
            places.append(place)
        return places.index(place) + 1


@dataclass(frozen=True, slots=True)
class Found:
    """The turn that answers a question, or that comes nearest to it, and what differs."""

    placed: Placed
    why: str = ""
    """Empty where the turn fits."""
    other_cells: bool = False
    """Whether only that differs which other cells have left."""


class Finder:
    """Finds the turns of one recording."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self._occurrences = Occurrences()

    def find(self, question: Question, request: ModelRequest) -> Found | None:
        """The turn for a question; `None` where nothing like it is recorded. May take some milliseconds."""
        branch = turn_after(self.recording.turns, question)
        if branch is not None:
            return Found(branch)
        number = self._occurrences.number(question)
        near = self._at_same_place(question)
        different = [parts(self.recording, one.turn, question, request.images) for one in near]
        if fitting := [one for one, found in zip(near, different, strict=True) if not found]:
            return Found(_of_occurrence(fitting, number))
        if not near:
            return None
        likeness = [
            (one.turn.asked.results == question.asked.results, one.turn.occurrence == number, -len(found))
            for one, found in zip(near, different, strict=True)
        ]
        best = likeness.index(max(likeness))
        return Found(near[best], show(different[best]), other_cells=left_by_other_cells(different[best]))

    def _at_same_place(self, question: Question) -> list[Placed]:
        """The turns of the same prompt and step, or else of a prompt that was changed a little."""
        step = [one for one in self.recording.turns if one.turn.step == question.step and one.turn.after is None]
        prompts = {one.turn.prompt[:_COMPARED]: one.turn.prompt for one in step[:_MOST_PROMPTS]}
        alike = get_close_matches(question.prompt[:_COMPARED], prompts, n=1, cutoff=_ALIKE)
        wanted = (
            {question.prompt}
            if any(one.turn.prompt == question.prompt for one in step)
            else {prompts[one] for one in alike}
        )
        return [one for one in step if one.turn.prompt in wanted]


def _of_occurrence(fitting: list[Placed], number: int) -> Placed:
    """Of several turns that answer the same, that of this run of the prompt; they are played in turn. The one that was
    written last wins among those of one run."""
    by_number = {one.turn.occurrence: one for one in fitting}
    in_order = [by_number[one] for one in sorted(by_number)]
    return by_number.get(number) or in_order[(number - 1) % len(in_order)]


class RecordedDecisions:
    """The decisions of one recording, which are given to the runs of each prompt in turn."""

    def __init__(self, lines: Sequence[DecisionLine]) -> None:
        self._lines = lines
        self._asked: defaultdict[str, Iterator[int]] = defaultdict(count)

    def next_run(self, prompt: str) -> tuple[ScriptedDecision, ...]:
        """Those on the calls of the next run of a prompt; after the last recorded one comes the first again."""
        lines = [line for line in self._lines if line.prompt == prompt]
        numbers = sorted({line.occurrence for line in lines})
        if not numbers:
            return ()
        number = numbers[next(self._asked[prompt]) % len(numbers)]
        return tuple(line.scripted for line in lines if line.occurrence == number)


class RecordedModel:
    """Plays `recording`. A request that differs from the recorded one is refused, or, with `warn`, answered with a
    notice. `pace` is the seconds before each word; 0 sends everything at once."""

    recorded = True

    def __init__(
        self,
        recording: Recording,
        *,
        name: str,
        on_change: OnChange = "strict",
        pace: float = 0.0,
        clock: Clock | None = None,
    ) -> None:
        self._finder = Finder(recording)
        self._reader = Reader(recording.header.patterns)
        self.server_tools = RecordedServerTools(recording)
        """Stands in for the MCP servers whose tools were called."""
        self.name = name
        self.notice = recording.header.notice
        """The text that a card shows with recorded answers."""
        self._on_change = on_change
        self._pace = pace
        self._clock = clock or Clock()
        self._decisions = RecordedDecisions(recording.decisions)
        shown = recording.header.images or any(one.turn.asked.all_images for one in recording.turns)
        self.facts = ModelFacts(images=shown)

    def scripted_decisions(self, prompt: str) -> tuple[ScriptedDecision, ...]:
        """The recorded decisions on the calls for `prompt`. Each time it is asked for a prompt that was recorded
        several times, the next run's."""
        return self._decisions.next_run(self._reader.prompt(prompt))

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelItem]:
        """Stream the recorded turn. Raises `RecordingDiffers`, and `ModelRefused` where only decisions may differ."""
        found = await in_own_thread(lambda: self._find(request))
        if found.why:
            yield Notice(found.why)
        for item in items_of(found.placed):
            if self._pace and isinstance(item, TextDelta | ReasoningDelta):
                for word in _WORD.findall(item.content):
                    await self._clock.sleep(self._pace)
                    yield replace(item, content=word)
            else:
                yield item

    async def aclose(self) -> None:
        pass

    def _find(self, request: ModelRequest) -> Found:
        question = self._reader.read(request)
        found = self._finder.find(question, request)
        if found is None:
            raise self._unknown(question)
        if not found.why:
            return found
        if self._on_change == "strict":
            raise RecordingDiffers(f"{unfit(self._finder.recording, found)} {GO_ON}")
        return Found(found.placed, f"{unfit(self._finder.recording, found)} The recorded answer was used all the same.")

    def _unknown(self, question: Question) -> ModelRefused | RecordingDiffers:
        """The error for a question that nothing recorded is like. Where only decisions may differ, as in the demo, the
        recording fits, and only knows no more."""
        recording = self._finder.recording
        prompts = list(dict.fromkeys(one.turn.prompt for one in recording.turns))
        if recording.turns and all(one.turn.after is not None for one in recording.turns):
            at = f" at step {question.step} after {outcome(question)}" if question.prompt in prompts else ""
            what = f"{self.name} is a recording and can't answer {question.prompt[:200]!r}{at}. It answers:\n"
            return ModelRefused(what + "\n".join(f"- {prompt}" for prompt in prompts) + f"\n{_REAL_MODEL}")
        at = f" at step {question.step}" if question.prompt in prompts else ""
        known = "\n".join(f"- {_quoted(one)}" for one in prompts[:_MOST_LISTED]) or "- (none)"
        more = f"\n- and {len(prompts) - _MOST_LISTED} more" if len(prompts) > _MOST_LISTED else ""
        return RecordingDiffers(
            f"{RECORDING_CHANGED}: {_shown(recording.path)} has no answer to {_quoted(question.prompt)}{at}. It "
            f"answers:\n{known}{more}\nTo record what is missing: agent-kernel record NOTEBOOK, or %%agent --record "
            "PATH on this cell alone."
        )


def turn_after(turns: Sequence[Placed], question: Question) -> Placed | None:
    """The turn for what became of the last calls. Where there is none for an edit, the one for a success."""
    after = outcome(question)
    wanted = (after, "success") if after == "edited" else (after,)
    here = [one for one in turns if (one.turn.prompt, one.turn.step) == (question.prompt, question.step)]
    return next((one for name in wanted for one in here if one.turn.after == name), None)


def outcome(question: Question) -> After:
    """What became of the last step's calls; of several, the first of denied, error, edited, success."""
    if question.step == 0:
        return "start"
    found = {_outcome(result.text) for result in question.asked.results}
    return next((name for name in _WEIGHT if name in found), "success")


def _outcome(text: str) -> After:
    if text.startswith(DENIED_PREFIX):
        return "denied"
    # The note about an edit precedes the result, so the error of an edited call begins on a later line.
    edited = EDITED_NOTE in text
    if text.startswith(NOT_DONE_PREFIXES) or (edited and any(f"\n{prefix}" in text for prefix in NOT_DONE_PREFIXES)):
        return "error"
    return "edited" if edited else "success"


def unfit(recording: Recording, found: Found) -> str:
    """The message for a turn that was recorded as the answer to something else."""
    placed, turn = found.placed, found.placed.turn
    return (
        f"{RECORDING_CHANGED}: {_shown(recording.path)}:{placed.line} (turn {placed.number}, step {turn.step} of "
        f"{_quoted(turn.prompt)}) answers something else than what is asked now.\n{found.why}\n"
        f"{RUN_IN_ORDER if found.other_cells else ''}"
        f"To record it again: agent-kernel record NOTEBOOK --turn {placed.number}, or --from {placed.number} for this "
        "turn and all after it."
    )


def items_of(placed: Placed) -> list[ModelItem]:
    """The turn as a model streams it."""
    answer = placed.turn.answer
    calls = tuple(
        RequestedCall(
            id="",
            name=call.name,
            arguments=call.arguments
            if isinstance(call.arguments, str)
            else json.dumps(call.arguments, ensure_ascii=False),
        )
        for call in answer.calls
    )
    items: list[ModelItem] = []
    if answer.reasoning:
        items.append(ReasoningDelta(answer.reasoning))
    if answer.content:
        items.append(TextDelta(answer.content))
    items += [ToolCallDelta(index, call.name) for index, call in enumerate(calls)]
    items.append(
        ModelTurn(
            content=answer.content,
            reasoning=answer.reasoning,
            tool_calls=calls,
            finish_reason=answer.finish_reason,
            failure=answer.failure,
            usage=TokenUsage(answer.usage.input_tokens, answer.usage.output_tokens),
        )
    )
    return items


def _shown(path: Path) -> Path:
    """The path as it is said in a notebook's record, which should not tell where it was made: relative to the folder of
    work, if it is in there."""
    folder = Path.cwd()
    return path.relative_to(folder) if path.is_relative_to(folder) else path


def _quoted(prompt: str) -> str:
    line = " ".join(prompt.split())
    return repr(line if len(line) <= _PROMPT_CHARACTERS else f"{line[: _PROMPT_CHARACTERS - 1]}…")
