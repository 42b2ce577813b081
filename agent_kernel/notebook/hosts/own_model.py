"""`OwnModel`: a model that a person has written, as a Python object. What goes wrong in it is told as theirs."""

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any, Literal, get_args, get_origin, get_type_hints

from agent_kernel.approvals.scripted import ScriptedDecision
from agent_kernel.errors import ConfigurationError, ModelError
from agent_kernel.models.answer_reading import MOST_CHARACTERS
from agent_kernel.models.base import (
    ModelFacts,
    ModelItem,
    ModelRequest,
    ModelTurn,
    ReasoningDelta,
    RequestedCall,
    TextDelta,
    TokenUsage,
    facts_of,
)
from agent_kernel.protocol.vocabulary import OWN_MODEL_FAILED
from agent_kernel.tools.truncation import TextLimits, truncate

_TRACEBACK = TextLimits(characters=2_400, lines=40)
_MEND = "Mend it and run the cell again; the docstrings of `agent_kernel.models.base.Model` say what a model does."
_ITEMS = "TextDelta, ReasoningDelta, ToolCallDelta, Retraction, Notice, Delay and, as the last one, a ModelTurn"

_FIELDS = {kind: get_type_hints(kind) for kind in (*get_args(ModelItem), RequestedCall)}
"""The types of the fields."""

logger = logging.getLogger(__name__)


class OwnModel:
    """Around a model object, for the runtime."""

    def __init__(self, model: Any, render: Callable[[BaseException], str]) -> None:
        """`render` makes the text of a traceback."""
        self.model = model
        self._render = render

    @property
    def name(self) -> str:
        return str(self.model.name)

    @property
    def recorded(self) -> bool:
        return bool(self.model.recorded)

    @property
    def facts(self) -> ModelFacts:
        return facts_of(self.model)

    def scripted_decisions(self, prompt: str) -> tuple[ScriptedDecision, ...]:
        """Those of a recording that the object plays."""
        find = getattr(self.model, "scripted_decisions", None)
        return find(prompt) if find is not None else ()

    async def record_decision(self, decision: ScriptedDecision, *, prompt: str) -> None:
        """See `RecordsDecisions`: of an object that records."""
        if record := getattr(self.model, "record_decision", None):
            await record(decision, prompt=prompt)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelItem]:
        """Raises `ModelError` for every fault of the object."""
        size, ended = 0, False
        try:
            items = self.model.stream(request)
            if not hasattr(items, "__aiter__"):
                if inspect.iscoroutine(items):
                    items.close()  # else Python warns that it was never awaited
                raise self._fault(f"its `stream` returns {_named(items)}, not an asynchronous iterator of {_ITEMS}")
            try:
                async for item in items:
                    if fault := _fault_of(item):
                        raise self._fault(f"its `stream` yields {fault}. It yields {_ITEMS}")
                    size += len(item.content) if isinstance(item, TextDelta | ReasoningDelta) else 0
                    if size > MOST_CHARACTERS:
                        raise self._fault(f"its answer is longer than {MOST_CHARACTERS:,} characters")
                    ended = ended or isinstance(item, ModelTurn)
                    yield item
                    await asyncio.sleep(0)  # else one that never waits could not be stopped
            finally:
                if close := getattr(items, "aclose", None):
                    await close()
        except (ModelError, ConfigurationError):
            raise
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            logger.exception("The model object %r failed", self.name)
            raise self._failed(error) from error
        if not ended:
            raise self._fault("its `stream` ends without a ModelTurn, which is its last item")

    async def learn(self) -> None:
        try:
            if learn := getattr(self.model, "learn", None):
                await learn()
        except Exception:
            logger.exception("The model object %r could not learn its facts", self.name)

    async def aclose(self) -> None:
        if close := getattr(self.model, "aclose", None):
            await close()

    def _fault(self, what: str) -> ModelError:
        return ModelError(f"{OWN_MODEL_FAILED}: {type(self.model).__name__} {self.name!r}, {what}. {_MEND}")

    def _failed(self, error: BaseException) -> ModelError:
        trace = truncate(self._render(error), _TRACEBACK).text.replace("\n", "\n  ")
        head = f"{OWN_MODEL_FAILED}: the code of {type(self.model).__name__} {self.name!r} raised an error."
        return ModelError(f"{head}\n  {trace}\n{_MEND}")


def _named(value: object) -> str:
    return f"a {type(value).__name__!r}"


def _fault_of(item: object) -> str:
    """What is wrong with an item of a stream; empty where nothing is."""
    if not isinstance(item, get_args(ModelItem)):
        return _named(item)
    calls: Any = item.tool_calls if isinstance(item, ModelTurn) else ()
    if not isinstance(calls, tuple | list):
        return f"a ModelTurn whose tool_calls is {_named(calls)}"
    if others := [call for call in calls if not isinstance(call, RequestedCall)]:
        return f"a ModelTurn with {_named(others[0])} among its tool_calls, which are RequestedCall objects"
    for part in (item, *calls):
        types = next(types for owner, types in _FIELDS.items() if isinstance(part, owner))
        for name, kind in types.items():
            value = getattr(part, name)
            if get_origin(kind) is Literal and value not in get_args(kind):
                return f"a {type(part).__name__} whose {name} is {value!r}"
            if kind in (str, int, TokenUsage) and not isinstance(value, kind):
                return f"a {type(part).__name__} whose {name} is {_named(value)}"
    return ""
