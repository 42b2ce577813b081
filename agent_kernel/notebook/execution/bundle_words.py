"""What the model is told of a display: its text, and what of it the user is shown that no text tells.

Which MIME types a page can draw, the page knows and the kernel does not, so nothing is said to have been seen.
"""

from collections.abc import Mapping
from typing import Any

from agent_kernel.notebook.execution.transcript import plain

PICTURES = ("image/png", "image/jpeg")
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
_WIDGET = "[A widget, which the user can use where the notebook shows widgets. This text is how it began.]"
_TEXTS = ("text/markdown", "text/latex", "text/html")
_NAMELESS = "<IPython.core.display."
"""How the plain text of `Math(...)`, `HTML(...)` and their like begins, which tells nothing."""
_PAGE_CHARACTERS = 10_000
"""HTML beyond this, or with a script, is a program's page and no text for a model."""


def bundle_words(bundle: Mapping[str, Any], *, shown: bool) -> str:
    """A bundle as the model reads it. What is `shown` as PNG or JPEG needs no note: whoever sends it to the model sends
    the picture, or says why not."""
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
    """What the user may see that is no text: pictures, charts, widgets, pages with scripts."""
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
