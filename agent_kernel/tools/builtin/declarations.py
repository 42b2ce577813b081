"""Declarations of the built-in tools."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from agent_kernel.tools.declaration import DeclaredApproval, ToolDeclaration

MOST_CHANGED = 5 * 1024 * 1024
"""The most characters that one call may write or replace, more than a person could review on a card."""
READS_FILES = frozenset({"read_notebook", "list_files", "search_files", "read_file"})
"""The tools declared `dynamic`, because only the executor knows whether a path is in the notebook's folder."""


WRITES_FILES = frozenset({"write_file", "edit_file"})
OPENS_FILES = READS_FILES | WRITES_FILES
CHANGES_CELLS = frozenset({"insert_cell", "edit_cell", "delete_cell", "move_cell", "run_cell"})
"""The tools that act on cells of the run's own notebook, in its page or its file. The server carries them out."""
RUNS_TOO = frozenset({"insert_cell", "edit_cell"})
"""Those that can also run the cell, in the same call."""


def _object(required: list[str], **properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _text(description: str, **more: Any) -> dict[str, Any]:
    return {"type": "string", "description": description, **more}


def _whole(description: str, **more: Any) -> dict[str, Any]:
    return {"type": "integer", "description": description, **more}


def _flag(description: str) -> dict[str, Any]:
    return {"type": "boolean", "description": description, "default": False}


_CELL_ID = _text("The cell's id, as in cell:ID.", minLength=1, maxLength=200)
_CELL_SOURCE = _text("The cell's whole new source.", maxLength=MOST_CHANGED)
_RUN_CELL_TOO = _flag("Run the cell too, and get its outcome.")
_AFTER = {
    "type": ["string", "null"],
    "maxLength": 200,
    "description": "The id of the cell above. null: at the top. Left out: below the prompt's cell.",
}

ASK_USER = "ask_user"
"""The tool that asks the person a question. Its call is `executing` while it waits for the answer."""

BUILTIN_TOOLS: tuple[ToolDeclaration, ...] = (
    ToolDeclaration(
        name="run_python",
        description=(
            "Run Python code in the user's own notebook kernel, with their variables and imports. Variables that "
            "the code sets stay. You get what it prints, the value of its last expression, tables, plots and "
            "tracebacks; the user sees the same. IPython magics and top-level await work. input() does not. The "
            "user reads the code before it runs: keep each call short, with one purpose."
        ),
        parameters=_object(["code"], code=_text("Python source.")),
    ),
    ToolDeclaration(
        name="inspect_variables",
        description=(
            "Look at the user's variables without changing anything: names, types, shapes, column names and types, "
            "and a small preview. Use this before writing code about data that you have not seen."
        ),
        parameters=_object(
            [],
            names={
                "type": "array",
                "items": {"type": "string"},
                "description": "Names of the variables to look at. Leave out for a list of all of them.",
            },
        ),
        approval="allow",
        read_only=True,
    ),
    ToolDeclaration(
        name="read_notebook",
        description=(
            "Read a notebook: each cell's id, number from 0, source, shortened outputs and errors, and whether it "
            "was changed since it ran. Without a path: this notebook, as the user sees it now."
        ),
        parameters=_object(
            [],
            path=_text("Another .ipynb file, relative to the notebook's folder, as last saved."),
            first_cell=_whole("Number of the first cell to read.", minimum=0, default=0),
            cells=_whole("How many cells to read.", minimum=1, maximum=500, default=100),
        ),
        approval="dynamic",
        read_only=True,
    ),
    ToolDeclaration(
        name="list_files",
        description=(
            "List the files and folders in a folder, with sizes. With a pattern it looks through all folders "
            "below. Hidden files are left out. At most 500 entries."
        ),
        parameters=_object(
            [],
            path=_text("The folder, relative to the notebook's folder.", default="."),
            pattern=_text("Only files that match, such as '*.csv' or 'data/**/*.parquet'."),
        ),
        approval="dynamic",
        read_only=True,
    ),
    ToolDeclaration(
        name="search_files",
        description=(
            "Search the text of the files in a folder and below it. Gives path, line number and line of each "
            "match, at most 200. Hidden files, binary files and files above 5 MB are left out."
        ),
        parameters=_object(
            ["query"],
            query=_text("What to look for.", minLength=1),
            path=_text("The folder or file to search, relative to the notebook's folder.", default="."),
            pattern=_text("Only search files that match, such as '*.py'."),
            regex=_flag("Read the query as a Python regular expression."),
            ignore_case=_flag("Treat upper and lower case alike."),
        ),
        approval="dynamic",
        read_only=True,
    ),
    ToolDeclaration(
        name="read_file",
        description=(
            "Read a text file. For long files read a part: `offset` is the first line, counted from 1, `limit` the "
            "number of lines. Load data files with run_python instead."
        ),
        parameters=_object(
            ["path"],
            path=_text("The file, relative to the notebook's folder."),
            offset=_whole("First line to read, counted from 1.", minimum=1, default=1),
            limit=_whole("How many lines to read.", minimum=1, maximum=10_000, default=1000),
        ),
        approval="dynamic",
        read_only=True,
    ),
    ToolDeclaration(
        name="edit_file",
        description=(
            "Replace a piece of text in a file. `old_text` must be exactly as in the file, with its indentation, "
            "and must occur once; take in enough lines around it to make it unique. The user sees the change as a "
            "diff."
        ),
        parameters=_object(
            ["path", "old_text", "new_text"],
            path=_text("The file, relative to the notebook's folder."),
            old_text=_text("The exact text to replace.", minLength=1, maxLength=MOST_CHANGED),
            new_text=_text("The text to put in its place.", maxLength=MOST_CHANGED),
            replace_all=_flag("Replace every occurrence."),
        ),
    ),
    ToolDeclaration(
        name="write_file",
        description=(
            "Create a text file, or replace the whole content of one. Missing folders are made. To change a part "
            "of a file use edit_file."
        ),
        parameters=_object(
            ["path", "content"],
            path=_text("The file, relative to the notebook's folder."),
            content=_text("The whole new content.", maxLength=MOST_CHANGED),
        ),
    ),
    ToolDeclaration(
        name="run_shell",
        description=(
            "Run a shell command in the notebook's folder and get its output and exit code. It has no terminal and "
            "no input, and the kernel waits for it. For work in Python use run_python. It may run inside walls: no "
            "network, writing only in the folder."
        ),
        parameters=_object(
            ["command"],
            command=_text("The command line.", minLength=1),
            timeout=_whole("Seconds until it is stopped.", minimum=1, maximum=600, default=120),
            outside=_flag("Run outside the walls: only for a command that they have stopped. The user is asked."),
        ),
    ),
    ToolDeclaration(
        name=ASK_USER,
        description=(
            "Ask the user one question and wait for the answer. Use it when you can't go on without a decision "
            "that only they can make. They may skip it."
        ),
        parameters=_object(
            ["question"],
            question=_text("The question, in one or two sentences.", minLength=1),
            choices={
                "type": "array",
                "items": {"type": "string"},
                "maxItems": 9,
                "description": "Answers to choose from, if there are only a few. The user may still write another.",
            },
        ),
        approval="allow",
        runs_in="page",
    ),
    ToolDeclaration(
        name="insert_cell",
        description="Add a cell to this notebook.",
        parameters=_object(
            ["source"],
            source=_CELL_SOURCE,
            cell_type={"type": "string", "enum": ["code", "markdown"], "default": "code"},
            after=_AFTER,
            run=_RUN_CELL_TOO,
        ),
    ),
    ToolDeclaration(
        name="edit_cell",
        description=(
            "Replace the source of a cell of this notebook that you have seen. To mend a cell, edit and run it, "
            "rather than run its code elsewhere. Refused where the user changed it meanwhile."
        ),
        parameters=_object(["cell_id", "source"], cell_id=_CELL_ID, source=_CELL_SOURCE, run=_RUN_CELL_TOO),
    ),
    ToolDeclaration(
        name="delete_cell",
        description="Delete a cell of this notebook that you have seen.",
        parameters=_object(["cell_id"], cell_id=_CELL_ID),
    ),
    ToolDeclaration(
        name="move_cell",
        description="Move a cell of this notebook that you have seen.",
        parameters=_object(["cell_id"], cell_id=_CELL_ID, after=_AFTER),
    ),
    ToolDeclaration(
        name="run_cell",
        description=(
            "Run a cell of this notebook that you have seen, as the user would. Its outputs go into the notebook."
        ),
        parameters=_object(["cell_id"], cell_id=_CELL_ID),
    ),
)
PARAMETERS: Mapping[str, Mapping[str, Any]] = {tool.name: tool.parameters for tool in BUILTIN_TOOLS}
BUILTIN_NAMES = frozenset(tool.name for tool in BUILTIN_TOOLS)


_LEAN: dict[str, tuple[str, dict[str, Any]]] = {
    "run_python": (
        "Run Python code in the user's notebook kernel. Variables stay. You get what it prints and the value of its "
        "last expression.",
        _object(["code"], code={"type": "string"}),
    ),
    "inspect_variables": (
        "Show the user's variables: types, shapes, columns, a preview. Without names: a list of all.",
        _object([], names={"type": "array", "items": {"type": "string"}}),
    ),
    "list_files": (
        "List the files in a folder of the notebook, or all that match a pattern such as '**/*.csv'.",
        _object([], path={"type": "string"}, pattern={"type": "string"}),
    ),
    "read_file": (
        "Read a text file: `limit` lines from line `offset` on, counted from 1.",
        _object(["path"], path={"type": "string"}, offset={"type": "integer"}, limit={"type": "integer"}),
    ),
    ASK_USER: (
        "Ask the user one question, where only they can decide, and wait for the answer.",
        _object(["question"], question={"type": "string"}),
    ),
}
"""Descriptions and parameters for a model whose context is small. `run_python` stands in for the tools that are not
here: it can do what they do, and the user reads the code."""


def lean_tools(tools: Sequence[ToolDeclaration]) -> tuple[ToolDeclaration, ...]:
    """The tools for a model whose context is small: built-in ones with fewer words, and fewer of them, unless the
    notebook has chosen some. Its own tools stay as they are."""
    shipped = [tool.name for tool in tools if is_shipped(tool)]
    is_choice = not {*shipped} >= BUILTIN_NAMES - CHANGES_CELLS  # cells can be changed only with a server
    return tuple(
        replace(tool, description=lean[0], parameters=lean[1])
        if tool.name in shipped and (lean := _LEAN.get(tool.name))
        else tool
        for tool in tools
        if is_choice or tool.name in _LEAN or tool.name not in shipped
    )


def is_shipped(tool: ToolDeclaration) -> bool:
    """Whether it is a built-in tool, and not the notebook's own of the same name."""
    shipped = _BY_NAME.get(tool.name)
    return shipped is not None and (tool.description, tool.parameters) == (shipped.description, shipped.parameters)


_BY_NAME = {tool.name: tool for tool in BUILTIN_TOOLS}
_STRICTNESS: tuple[DeclaredApproval, ...] = ("allow", "dynamic", "ask", "deny")


def no_looser(declared: ToolDeclaration) -> ToolDeclaration:
    """A kernel's declaration, at least as strict as the shipped one if it has a built-in tool's name: only people,
    rules and the site decide whether `run_shell` may run unasked. None of them is a server's."""
    declared = replace(declared, origin=None)
    shipped = _BY_NAME.get(declared.name)
    if shipped is None:
        return declared
    return replace(
        declared,
        approval=max(declared.approval, shipped.approval, key=_STRICTNESS.index),
        read_only=declared.read_only and shipped.read_only,
        runs_in=shipped.runs_in,
        cache_seconds=declared.cache_seconds if shipped.read_only else None,
    )
