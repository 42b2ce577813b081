"""Bounds the tables that a page would take seconds to draw: their first rows stand, and all of them come by a press.

The whole table goes along as text that no page parses, and the press is HTML of its own. So one display does it on
cards, in the notebook and in exported pages. Where scripts are taken out, the first rows are left.
"""

import re
from typing import NamedTuple

LONG_CHARACTERS = 300_000
"""A page takes half a second for a table of so many characters."""
SHOWN_ROWS = 30
WHOLE = '<details class="agent-kernel-whole"'
"""Where the whole table begins, after the first rows."""

_PARTS = re.compile(r"<tbody|</tbody|</tr\s*>", re.IGNORECASE)
_ON_PRESS = (
    "const [, place, whole] = this.children; this.previousElementSibling.hidden = this.open; "
    "if (whole) { place.innerHTML = whole.textContent; whole.remove(); }"
)


class LongTable(NamedTuple):
    with_whole: str
    """HTML that draws the first rows, and the others when it is asked to."""
    first: str
    """HTML of the first rows alone, where there is no room for the others."""


def long_table(html: object) -> LongTable | None:
    """The two forms of a long table; `None` for other HTML. Linear in its size."""
    if not isinstance(html, str) or len(html) <= LONG_CHARACTERS:
        return None
    markup = html.lower()
    if markup.count("<table") != 1 or any(other in markup for other in ("<script", "</script", "<!--")):
        return None
    parts = [(found[0].lower()[:7], found.end()) for found in _PARTS.finditer(html)]
    bodies = [end for kind, end in parts if kind in ("<tbody", "</tbody")] or [0, len(html)]
    rows = [end for kind, end in parts if kind.startswith("</tr") and bodies[0] < end <= bodies[-1]]
    if len(rows) <= SHOWN_ROWS:
        return None
    count, size = f"{len(rows):,} rows", f"{len(html) / 1e6:.1f} MB of HTML"
    first = f"<div>{html[: rows[SHOWN_ROWS - 1]]}{html[rows[-1] :]}\n<p>The first {SHOWN_ROWS} of {count}.</p></div>"
    whole = (
        f'{WHOLE} ontoggle="{_ON_PRESS}"><summary>Show all {count} ({size})</summary>'
        f'<div>They are shown where this notebook is trusted.</div><script type="text/plain">{html}</script></details>'
    )
    return LongTable(f"{first}\n{whole}", f"{first}\n<p>The whole table, {size}, is too large to be kept here.</p>")
