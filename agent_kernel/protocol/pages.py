"""What JupyterLab's pages and the server say to each other about open notebooks (`agent-kernel/api/pages`).

A page says which notebooks it has open. The server asks it to read, change or run cells of one of them, each request by
an id of its own, and the page answers with the cells as they are then. The same models describe the cells of a file.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from agent_kernel.protocol.ids import CellId

MOST_NOTEBOOKS = 200
MOST_SHOWN = 500
"""The most runs of a notebook that a page names."""
MOST_READ = 500
"""The most cells of one answer."""
MOST_OUTPUTS = 50
"""The most outputs of a cell that a page sends, each cut to `OUTPUT_CHARACTERS`."""
OUTPUT_CHARACTERS = 20_000
SOURCE_CHARACTERS = 5_000_000
REMOVED_CHARACTERS = 5_000_000
"""Of a deleted cell that can come back whole."""

Refusal = Literal["gone", "twice", "changed", "locked", "read_only", "running", "kind", "no_kernel", "closed", "failed"]
"""Why a page, or a file, did not do what it was asked: there is no such cell, or more than one; its source is another
one; it may not be edited or deleted; the notebook can't be saved; the cell runs; it can't run; there is no kernel; the
page has the notebook no more; or something broke."""
Act = Literal["change", "run"]
Lock = Literal["editable", "deletable"]
"""A field of a cell's metadata that locks it where it is false."""


class PageModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True, defer_build=True)


class CellState(PageModel):
    """A cell as it is now."""

    cell_id: CellId
    cell_type: str = Field(max_length=40)
    index: int = Field(ge=0)
    source: str = Field(max_length=SOURCE_CHARACTERS)
    execution_count: int | None = None
    running: bool = False
    changed: bool = False
    """Whether its source was changed since it ran, where that is known."""
    locks: tuple[Lock, ...] = ()
    outputs: list[dict[str, Any]] = Field(default_factory=list, max_length=MOST_OUTPUTS)
    """In nbformat; of bundles only texts, but every type is named."""
    more_outputs: int = Field(default=0, ge=0)


class OpenNotebook(PageModel):
    path: str = Field(max_length=4096)
    kernel_id: str | None = Field(default=None, max_length=200)
    shared: bool = False
    """Whether its document is the same one in all pages that have it open."""
    shows: tuple[Annotated[str, Field(max_length=200)], ...] = Field(default=(), max_length=MOST_SHOWN)
    """The runs that outputs show which are no records yet."""


class NotebooksOpened(PageModel):
    """Sent when the page connects, when it is looked at, and when what it says has changed."""

    type: Literal["notebooks"] = "notebooks"
    notebooks: tuple[OpenNotebook, ...] = Field(default=(), max_length=MOST_NOTEBOOKS)


class PageAnswer(PageModel):
    """The answer to a request: the cells that it is about, as they are then."""

    type: Literal["answer"] = "answer"
    request_id: str = Field(max_length=100)
    refusal: Refusal | None = None
    detail: str = Field(default="", max_length=2_000)
    """More about a refusal, or about what was done."""
    cells: tuple[CellState, ...] = Field(default=(), max_length=MOST_READ)
    total: int = Field(default=0, ge=0)
    """The number of the notebook's cells."""
    removed: dict[str, Any] | None = None
    """The cell that was deleted, in nbformat, where it is not too long."""
    language: str = Field(default="python", max_length=100)
    """Of the notebook's code."""
    refuses: tuple[Act, ...] = ()
    """What can't be done with cells of this notebook, because it is read-only: in a page they run all the same."""
    success: bool = True
    """Whether a cell that ran did so without an error."""


class ReadCells(PageModel):
    """Asks for the cells with these ids or execution counts; without them, for `count` cells from `first` on."""

    type: Literal["read"] = "read"
    cell_ids: tuple[CellId | int, ...] | None = None
    first: int = 0
    count: int = MOST_READ


class CellChange(PageModel):
    """A change of one cell. `insert` of a cell that is there already changes nothing."""

    type: Literal["change"] = "change"
    action: Literal["insert", "edit", "delete", "move"]
    cell_id: CellId
    expected: str | None = None
    """The source that the cell must have; `None` for a cell that is new."""
    source: str = ""
    cell_type: Literal["code", "markdown"] = "code"
    cell: dict[str, Any] | None = None
    """For `insert`: the cell in nbformat, as `PageAnswer.removed`, in place of its source and type."""
    after: CellId | None = None
    """For `insert` and `move`; `None`: the notebook's beginning; an empty text: its end."""


class RunCell(PageModel):
    """Runs a cell as if the user had pressed, and answers when it has ended."""

    type: Literal["run"] = "run"
    cell_id: CellId
    expected: str


class PutRun(PageModel):
    """Puts how a run stands, or its record, into the document: in place of each output that shows the run.

    A run that goes on stays drawn as it is. The answer is a success where there is such an output."""

    type: Literal["put"] = "put"
    run_id: str
    outputs: tuple[dict[str, Any], ...]
    """In nbformat: what shows the run, then its results, which are added to the cell where they are missing."""
    elsewhere: dict[str, Any]
    """What shows the run in further places: an output that contains its results."""


AnyPageRequest = ReadCells | CellChange | RunCell
"""About a cell: of a page, or of a file."""


class PageRequest(PageModel):
    request_id: str
    path: str
    """The notebook, as the page has named it."""
    ask: Annotated[AnyPageRequest | PutRun, Field(discriminator="type")]


class RunsBegan(PageModel):
    """Tells a page that a run has begun of which no cell told it."""

    type: Literal["runs"] = "runs"


PageMessage = NotebooksOpened | PageAnswer

page_message_adapter: TypeAdapter[PageMessage] = TypeAdapter(
    Annotated[PageMessage, Field(discriminator="type")], config=ConfigDict(defer_build=True)
)
