"""The record of a run in a notebook's saved file."""

from typing import Any

import nbformat

WIDGET = "application/vnd.jupyter.widget-view+json"


def bundles(notebook: nbformat.NotebookNode, cell: int) -> list[dict[str, Any]]:
    return [output["data"] for output in notebook.cells[cell].outputs if "data" in output]


def assert_record_is_saved(saved: nbformat.NotebookNode, cell: int, *words: str) -> None:
    (record,) = [data for data in bundles(saved, cell) if "data-agent-record" in data.get("text/html", "")]
    for mime in ("text/html", "text/markdown", "text/plain"):
        for word in words:
            assert word in record[mime], f"{word!r} is not in the record's {mime}"
    assert not any(WIDGET in data for data in bundles(saved, cell))
