"""What a kernel and its server say to each other until the model of a first prompt is asked, as plain dataclasses.

A kernel writes and reads these before it has imported pydantic, which takes longer than the rest of that way. What a
kernel wrote, the server checks by pydantic, within the bounds stated here. `kernel` has the other requests and replies,
`kernel_events` the other events.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Generic, Literal, Protocol, TypeVar, cast, get_args, get_origin

from agent_kernel.protocol.bounds import Bounds, CellId, Identifier
from agent_kernel.protocol.budgets import BudgetLimits
from agent_kernel.protocol.decisions import MOST_DECISIONS, ScriptedDecision
from agent_kernel.protocol.tools import ToolDeclaration
from agent_kernel.protocol.vocabulary import Effort, PolicyMode, StopCause

MOST_RULES, MOST_RULE_CHARACTERS = 200, 10_000
"""Bounds of a notebook's own rules, all of which a run's header shows."""
MOST_REPLACED = 100
"""The most earlier runs of a cell that a run may replace."""
MOST_CELLS_BEFORE = 20
FOLDER_OPEN = ", in the folder "
VARIABLES_OPEN = "The user's variables:\n"
CELLS_OPEN = "The cells that were run last:\n"
"""Beginnings of parts of the notebook's summary, as the model reads it: recordings compare the variables alone."""

ReplyT = TypeVar("ReplyT")


class Request(Generic[ReplyT]):
    """A request, with the type of its reply."""

    @classmethod
    def reply_type(cls) -> type[ReplyT]:
        declared = next(base for base in cls.__orig_bases__ if get_origin(base) is Request)  # type: ignore[attr-defined]
        return cast("type[ReplyT]", get_args(declared)[0])


@dataclass(frozen=True, slots=True)
class Refused:
    """Replaces any reply if the kernel could not carry out the request."""

    ok: Literal[False] = False
    error: str = "The kernel refused a request."


@dataclass(frozen=True, slots=True)
class Done:
    """Replies to a request that was carried out, and has no other result."""

    ok: Literal[True] = True


@dataclass(frozen=True, slots=True)
class Hello:
    """An event: a kernel has loaded the extension. One whose environment names no server looks for one by this: it is
    repeated until answered, or for a short time."""

    event: Literal["hello"] = "hello"


@dataclass(frozen=True, slots=True)
class Serve(Request[Done]):
    """Tells a kernel behind a gateway that this server serves it, which its environment can't say."""

    op: Literal["serve"] = "serve"


@dataclass(frozen=True, slots=True)
class RunAnnounced:
    """An event: a cell has made a run. Repeated until the server asks for the run's declaration."""

    run_id: Identifier
    conversation_id: Identifier | None = None
    through_gateway: Literal[True] | None = None
    """Set if the event is for a server that reaches the kernel through a gateway. The gateway's own server gets it
    too."""
    event: Literal["announce"] = "announce"


@dataclass(frozen=True, slots=True)
class RunDeclaration:
    """A run as its cell declared it. The server validates the budgets as well."""

    run_id: Identifier
    conversation_id: Identifier
    prompt: str
    model: str | None = None
    effort: Effort | None = None
    policy: PolicyMode | None = None
    rules: Annotated[
        tuple[Annotated[str, Bounds(max_length=MOST_RULE_CHARACTERS)], ...], Bounds(max_length=MOST_RULES)
    ] = ()
    system: str | None = None
    budget: BudgetLimits = field(default_factory=BudgetLimits)
    conversation_budget: BudgetLimits = field(default_factory=BudgetLimits)
    tools: tuple[ToolDeclaration, ...] = ()
    script: Annotated[tuple[ScriptedDecision, ...], Bounds(max_length=MOST_DECISIONS)] = ()
    widget_model_id: str | None = None
    replaces: Annotated[tuple[Identifier, ...], Bounds(max_length=MOST_REPLACED)] = ()
    continues: Annotated[int | None, Bounds(ge=0)] = None
    cell_id: CellId | None = None
    cells_before: Annotated[tuple[CellId, ...], Bounds(max_length=MOST_CELLS_BEFORE)] = ()
    """The ids of cells that the same page has run, the last first. They are in the same notebook as this cell, which
    may not be saved yet."""
    prompt_in_cell: bool = False
    stop: StopCause | None = None
    """Set if the kernel has already asked for the run to be stopped."""


@dataclass(frozen=True, slots=True)
class Declared:
    """Replies to `DeclareRun`."""

    declaration: RunDeclaration
    ok: Literal[True] = True


@dataclass(frozen=True, slots=True)
class DeclareRun(Request[Declared]):
    """Asks for the run that was announced."""

    run_id: str
    op: Literal["declare"] = "declare"


@dataclass(frozen=True, slots=True)
class EnvironmentDescribed:
    """Replies to `DescribeEnvironment`."""

    text: str = ""
    ok: Literal[True] = True


@dataclass(frozen=True, slots=True)
class DescribeEnvironment(Request[EnvironmentDescribed]):
    """Asks for what the model is told of the notebook."""

    notebook_path: str | None = None
    op: Literal["environment"] = "environment"


FirstRequest = Serve | DeclareRun | DescribeEnvironment
_REQUESTS: Mapping[str, type[FirstRequest]] = {
    "serve": Serve,
    "declare": DeclareRun,
    "environment": DescribeEnvironment,
}


class Model(Protocol):
    """A message that is a model of pydantic's."""

    def model_dump(self, *, mode: str) -> dict[str, Any]: ...


FirstMessage = FirstRequest | Hello | RunAnnounced | Refused | Done | Declared | EnvironmentDescribed
Message = FirstMessage | Request[Any] | Model


def read_first_request(content: Mapping[str, Any]) -> FirstRequest | None:
    """`None` for another request. Raises `ValueError`, or `TypeError` where a field is missing. A kernel believes its
    server: the fields of these requests are texts, and no more is checked."""
    known = _REQUESTS.get(content["op"]) if isinstance(content.get("op"), str) else None
    if known is None:
        return None
    fields = {name: content[name] for name in known.__dataclass_fields__ if name in content}
    if not all(isinstance(value, str | None) for value in fields.values()):
        raise ValueError("a field of the request is no text")
    return known(**fields)


def content_of(message: Message) -> dict[str, Any]:
    """Encode a message for the wire."""
    if isinstance(message, RunAnnounced):  # every page of the notebook gets it: fields without a value are left out
        return {name: value for name, value in asdict(message).items() if value is not None}
    return asdict(message) if isinstance(message, FirstMessage) else cast("Model", message).model_dump(mode="json")
