"""A call's outputs as in a notebook, and bounded, for the AI SDK's messages."""

from typing import Any

import orjson

OUTPUT_CHARACTERS = 100_000
"""The most text of a call's outputs in a message; a page sends it back with each request."""
RICH_CHARACTERS = 20_000
"""A representation that is longer than this, such as HTML, is left out of an output."""

_LOOSE_TEXT = ("text/plain", "text/markdown", "text/html", "text/latex", "application/json")


def add_output(outputs: list[dict[str, Any]], output: dict[str, Any]) -> None:
    """Add a live output, as a cell would: text joins, `clear` clears, a display that has an id is replaced."""
    match output["kind"]:
        case "clear":
            outputs.clear()
        case "stream":
            name, text = output.get("name") or "stdout", output.get("text", "")
            if outputs and outputs[-1].get("name") == name:
                outputs[-1]["text"] = (outputs[-1]["text"] + text)[-2 * OUTPUT_CHARACTERS :]
            else:
                outputs.append({"output_type": "stream", "name": name, "text": text})
        case "display":
            _add_display(outputs, output)
        case "error":
            text = output.get("text", "")
            outputs.append({"output_type": "error", "ename": "", "evalue": text, "traceback": []})


def _add_display(outputs: list[dict[str, Any]], output: dict[str, Any]) -> None:
    data = {kind: output["data"][kind] for kind in _LOOSE_TEXT if kind in output.get("data", {})}
    made = {"output_type": "display_data", "data": data, "metadata": {}}
    display_id = output.get("display_id")
    if display_id is not None:
        made["metadata"] = {"display_id": display_id}
        for at, one in enumerate(outputs):
            if one.get("metadata", {}).get("display_id") == display_id:
                outputs[at] = made
                return
    outputs.append(made)


def bounded(outputs: list[dict[str, Any]], most: int) -> list[dict[str, Any]]:
    """The newest outputs, up to so much text; long ones lose their richer forms first, then their beginning."""
    kept: list[dict[str, Any]] = []
    left = most
    for output in reversed(outputs):
        if left <= 0:
            break
        shown = _shortened(output, left)
        left -= _size(shown)
        kept.append(shown)
    return kept[::-1]


def _shortened(output: dict[str, Any], most: int) -> dict[str, Any]:
    match output["output_type"]:
        case "stream":
            return output | {"text": output["text"][-most:]}
        case "error":
            return output | {"evalue": output["evalue"][:most]}
    data = {kind: value for kind, value in output["data"].items() if _length(value) <= min(RICH_CHARACTERS, most)}
    return output | {"data": data}


def _size(output: dict[str, Any]) -> int:
    return 50 + _length(output.get("text", "")) + _length(output.get("evalue", "")) + _length(output.get("data", ""))


def _length(value: Any) -> int:
    return len(value) if isinstance(value, str) else len(orjson.dumps(value))
