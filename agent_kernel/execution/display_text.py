"""Turns displays (MIME bundles) into text for the model: their text, and notes on pictures, charts and widgets.

The kernel does not know which MIME types a page can draw, so a note never says that the user has seen something.
"""

from collections.abc import Mapping
from typing import Any

from agent_kernel.execution.stream_text import plain

PICTURES = ("image/png", "image/jpeg")
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
_WIDGET = "[A widget, which the user can use where the notebook shows widgets. This text is how it was at the end.]"
_TEXTS = ("text/markdown", "text/latex", "text/html")
_NAMELESS = "<IPython.core.display."
"""The beginning of the plain text of `Math(...)`, `HTML(...)` and the like, which is useless."""
_PAGE_CHARACTERS = 10_000
"""HTML that is longer, or has a script, is a page and no text for a model."""


def widget_in(bundle: Mapping[str, Any]) -> str | None:
    """The model id of the widget that a bundle shows."""
    view = bundle.get(WIDGET_VIEW)
    model_id = view.get("model_id") if isinstance(view, Mapping) else None
    return model_id if isinstance(model_id, str) else None


def display_text(bundle: Mapping[str, Any], *, shown: bool) -> str:
    """A bundle as text. `shown` is false for a display that is too large to be shown.

    A PNG or JPEG that is shown gets no note here: the runtime sends the picture to the model, or says why not.
    """
    text = _text(bundle)
    rich = _rich(bundle)
    if shown:
        has_picture = any(mime in PICTURES for mime in bundle)
        notes = [_note(mime, has_picture) for mime in rich if mime not in PICTURES]
        if text is None and not notes:
            notes = [f"[{mime}]" for mime in rich]
    else:
        notes = [f"[{mime}, too large to show]" for mime in rich]
    return "\n".join([*([plain(text)] if text is not None else []), *notes])


def _text(bundle: Mapping[str, Any]) -> str | None:
    text = bundle.get("text/plain")
    if text is not None and not str(text).startswith(_NAMELESS):
        return str(text)
    if not any(mime.startswith("image/") for mime in bundle):
        for mime in _TEXTS:
            if bundle.get(mime) is not None and not _is_page(mime, bundle[mime]):
                return str(bundle[mime])
    return None if text is None else str(text)


def _rich(bundle: Mapping[str, Any]) -> list[str]:
    """The MIME types that are not text: pictures, charts, widgets, pages with scripts."""
    return [mime for mime, value in bundle.items() if not mime.startswith("text/") or _is_page(mime, value)]


def _is_page(mime: str, value: Any) -> bool:
    return mime == "text/html" and ("<script" in str(value) or len(str(value)) > _PAGE_CHARACTERS)


def _note(mime: str, has_picture: bool) -> str:
    if mime == WIDGET_VIEW:
        return _WIDGET
    if mime == "image/svg+xml":
        return f"[{mime} shown to the user]"
    unseen = "" if has_picture else " You are given no picture of it."
    return f"[{mime}: the notebook draws it for the user where it can.{unseen}]"
