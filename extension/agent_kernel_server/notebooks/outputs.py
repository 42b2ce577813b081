"""Reads cells and outputs of notebooks. A notebook is never trusted: any part of it may be missing or malformed."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

WIDGET_MIME = "application/vnd.jupyter.widget-view+json"
PROMPTS = ("agent_kernel", "%agent")
"""What a cell has that loads the extension or asks an agent."""

Notebook = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell that has outputs. `outputs` is the notebook's own list."""

    source: str
    outputs: list[Any]


def notebook_in(model: object) -> Notebook | None:
    """The notebook of a contents model, if it has one."""
    if not isinstance(model, dict) or model.get("type") != "notebook":
        return None
    content = model.get("content")
    return content if isinstance(content, dict) else None


def has_prompt(notebook: Notebook) -> bool:
    cells = notebook.get("cells")
    sources = [_text(cell.get("source")) for cell in cells if isinstance(cell, dict)] if isinstance(cells, list) else []
    return any(prompt in source for source in sources for prompt in PROMPTS)


def cells_of(notebook: Notebook) -> Iterator[Cell]:
    """The cells that have outputs."""
    cells = notebook.get("cells")
    for cell in cells if isinstance(cells, list) else ():
        outputs = cell.get("outputs") if isinstance(cell, dict) else None
        if isinstance(outputs, list) and outputs:
            yield Cell(_text(cell.get("source")), outputs)


def displays_of(cell: Cell) -> Iterator[dict[str, Any]]:
    """The display outputs of a cell."""
    for output in cell.outputs:
        if isinstance(output, dict) and output.get("output_type") in ("display_data", "execute_result"):
            yield output


def widget_in(output: dict[str, Any]) -> str | None:
    """The model id of the widget that an output shows."""
    view = _data(output).get(WIDGET_MIME)
    model_id = view.get("model_id") if isinstance(view, dict) else None
    return model_id if isinstance(model_id, str) else None


def put_widget(output: dict[str, Any], widget_model_id: str) -> None:
    """Show a widget. The saved data stays beside it, for pages without widgets."""
    view = {"model_id": widget_model_id, "version_major": 2, "version_minor": 1}
    output["data"] = {**_data(output), WIDGET_MIME: view}
    output["metadata"] = {}


def html_of(output: Any) -> str:
    """The HTML of an output; "" if it has none."""
    return _text(_data(output).get("text/html")) if isinstance(output, dict) else ""


def metadata_of(output: Any, name: str) -> Any:
    """One item of an output's metadata; `None` if there is none."""
    metadata = output.get("metadata") if isinstance(output, dict) else None
    return metadata.get(name) if isinstance(metadata, dict) else None


def _data(output: dict[str, Any]) -> dict[str, Any]:
    data = output.get("data")
    return data if isinstance(data, dict) else {}


def _text(value: Any) -> str:
    """One text: nbformat also allows a list of lines."""
    return value if isinstance(value, str) else "".join(map(str, value)) if isinstance(value, list) else ""
