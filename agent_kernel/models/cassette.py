"""The file format of recordings, version 1. Its name in the code is cassette; users read "recording".

It is UTF-8 JSON:

    {
      "version": 1,
      "title": "Penguins",
      "model": "gpt-5.2",                  what was recorded; shown, never called
      "notice": "Recorded answers; ...",   shown beside the answer; may be empty
      "conversations": [
        {
          "prompt": "Summarise the table",
          "turns": [
            {"step": 0, "after": "start", "content": "", "reasoning": "Let me look.",
             "tool_calls": [{"name": "run_python", "arguments": {"code": "df.describe()"}}],
             "usage": {"input_tokens": 812, "output_tokens": 31}},
            {"step": 1, "after": "success", "content": "There are 344 rows."},
            {"step": 1, "after": "denied", "content": "Understood, I leave the table alone."}
          ],
          "decisions": [{"tool_name": "run_python", "approved": true, "reason": null}]
        }
      ]
    }

`step` counts the assistant's turns since the prompt, from 0. `after` is the outcome of the previous step's calls:
`success`, `denied`, `error` or `edited`; of several, the first of denied, error, edited, success. `start` means that
there was no previous step. `any`, the default, is used if no other alternative matches. `arguments` given as text are
sent unchanged. `decisions` answer approvals in headless runs. Only `prompt`, `turns` and `step` are required; unknown
fields are refused.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, ValidationError

from agent_kernel.errors import ConfigurationError
from agent_kernel.models.base import CONTEXT_OPEN, WireMessage
from agent_kernel.tools.builtin.opening import FileTooLarge, read_bytes
from agent_kernel.tools.outcome_texts import DENIED_PREFIX, EDITED_NOTE, NOT_DONE_PREFIXES

LARGEST_CASSETTE = 16 * 1024 * 1024
"""The largest file that is read, in bytes."""
_RESTORE = "Put the file back as it was (version control has it), or record it again: %%agent --record NAME.jsonl."

StepOutcome = Literal["success", "denied", "error", "edited"]
After = Literal["any", "start"] | StepOutcome
_WEIGHT: tuple[StepOutcome, ...] = ("denied", "error", "edited", "success")


class _Wire(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class RecordedCall(_Wire):
    name: str
    arguments: dict[str, Any] | str = Field(default_factory=dict)


class RecordedUsage(_Wire):
    input_tokens: NonNegativeInt = 0
    output_tokens: NonNegativeInt = 0


class RecordedTurn(_Wire):
    step: NonNegativeInt
    after: After = "any"
    content: str = ""
    reasoning: str = ""
    tool_calls: tuple[RecordedCall, ...] = ()
    usage: RecordedUsage = RecordedUsage()


class RecordedDecision(_Wire):
    approved: bool
    tool_name: str | None = None
    reason: str | None = None


class RecordedConversation(_Wire):
    prompt: str
    turns: tuple[RecordedTurn, ...]
    decisions: tuple[RecordedDecision, ...] = ()


class Cassette(_Wire):
    version: Literal[1] = 1
    title: str = ""
    model: str = ""
    notice: str = ""
    conversations: tuple[RecordedConversation, ...] = ()


def load_cassette(path: Path) -> Cassette:
    """Read and validate a cassette. Raises `ConfigurationError` with the file's name and its first fault."""
    try:
        return Cassette.model_validate(orjson.loads(read_bytes(Path(os.path.realpath(path)), LARGEST_CASSETTE)))
    except FileTooLarge:
        raise ConfigurationError(f"{path} is larger than 16 MiB, so it is not read as a recording.") from None
    except OSError as error:
        raise ConfigurationError(f"The recording {path} can't be read: {error.strerror}.") from None
    except orjson.JSONDecodeError as error:
        raise ConfigurationError(f"The recording {path} is not JSON: {error}. {_RESTORE}") from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ConfigurationError(f"The recording {path} is not valid at {place}: {first['msg']}. {_RESTORE}") from None


def normalized_prompt(text: str) -> str:
    """A prompt for comparison: without the notebook's summary, white space collapsed."""
    return " ".join(text.partition(CONTEXT_OPEN)[0].split())


def position_in(messages: Sequence[WireMessage]) -> tuple[str, int, frozenset[StepOutcome]]:
    """The position in a conversation: its last prompt, the number of the next step, the outcomes of the last one."""
    prompt, step = "", 0
    outcomes: set[StepOutcome] = set()
    for message in messages:
        match message.get("role"):
            case "user":
                prompt, step = normalized_prompt(text_of(message)), 0
                outcomes.clear()
            case "assistant":
                step += 1
                outcomes.clear()
            case "tool":
                outcomes.add(_outcome(text_of(message)))
            case _:
                pass
    return prompt, step, frozenset(outcomes)


def best_outcome(step: int, outcomes: frozenset[StepOutcome]) -> After:
    """The most specific value of `after` for these outcomes."""
    if step == 0:
        return "start"
    return next((outcome for outcome in _WEIGHT if outcome in outcomes), "any")


def text_of(message: WireMessage) -> str:
    content = message.get("content")
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def _outcome(text: str) -> StepOutcome:
    if text.startswith(DENIED_PREFIX):
        return "denied"
    # The note about an edit precedes the result, so the error of an edited call begins on a later line.
    edited = EDITED_NOTE in text
    if text.startswith(NOT_DONE_PREFIXES) or (edited and any(f"\n{prefix}" in text for prefix in NOT_DONE_PREFIXES)):
        return "error"
    return "edited" if edited else "success"
