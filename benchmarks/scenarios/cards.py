"""500 live cards: their paint after a reload, by a reload without cards, and frames while an answer streams below.

The floor of a reload is the same with as many of Jupyter's own widgets, each a line of text, in place of the cards.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from benchmarks.frame import Figure, Floor, Goal, Report, median
from benchmarks.lab import LOAD, UNENDING, Stage, stage
from tests.e2e.lab import NotebookPage

CALLS = 500
SECONDS = 4.0
TOKENS, MICROS = 2_000, 4_000
"""The answer below the most cards; it goes on for twice the seconds, and then is silent but does not end."""
AFTER = 1_000
"""Milliseconds after the last paint in which frames are still looked at."""
WIDGETS = """import ipywidgets
ipywidgets.VBox([ipywidgets.HTML(f"<p class='bench-plain'>Widget number {number}</p>") for number in range(COUNT)])"""
Reload = Mapping[str, float]


def run(rounds: int, most: int = CALLS, seconds: float = SECONDS) -> Report:
    report = Report()
    reloads: list[Reload] = []
    without: list[Reload] = []
    floors: list[Reload] = []
    with _begun(most) as (on, requests):
        plain = _other(on, "plain.ipynb", "print('plain')")
        widgets = _other(on, "widgets.ipynb", WIDGETS.replace("COUNT", str(most)))
        pauses = _pauses(on, seconds)
        on.notebook.save()
        for _ in range(min(5, 2 * rounds - 1)):  # a page's own reload varies by 100 ms
            without.append(_reload_without(on, plain))
            floors.append(_reload_widgets(on, widgets, most))
            reloads.append(_reload(on, most))
        _stop(on)
    report.raw = {"pauses": pauses, "reloads": reloads, "without cards": without, "widgets": floors}
    report.figures += _after_a_reload(most, reloads, without, floors)
    report.figures += [
        Figure(
            f"frames per second, streaming below {most} cards",
            len(pauses) / seconds,
            "1/s",
            beside={"pause p50 ms": median(pauses), "longest ms": pauses[-1]},
        ),
        Figure(
            f"a call in the kernel and its model request, of {most}",
            (requests[most]["ns"] - requests[0]["ns"]) / 1e6 / most,
            "ms",
        ),
    ]
    return report


@contextmanager
def _begun(count: int) -> Iterator[tuple[Stage, list[dict[str, Any]]]]:
    """A notebook whose only run has made this many calls and goes on, and the requests to its model. Of its own: the
    records of earlier runs in the same notebook take JupyterLab time, some 0.4 ms a call."""
    cells = [LOAD, f"%%agent --policy allow --model {_model(count)}\nGo on and on."]
    with stage(_model(count), cells, UNENDING) as on:
        on.notebook.run(0)
        on.notebook.run(1, wait=False)
        requests = on.wait_for_requests(count + 1, 180)
        on.wait(f"() => bench.cards() >= {count} && bench.answer()")
        yield on, requests


def _stop(on: Stage) -> None:
    on.notebook.page.get_by_role("button", name="Stop", exact=True).first.click()
    on.wait_for_end()


def _model(calls: int) -> str:
    """The script: this many calls, then an answer that is held."""
    return f"held:nothing:{calls}:{TOKENS}:{MICROS}"


def _after_a_reload(
    cards: int, reloads: Sequence[Reload], without: Sequence[Reload], floors: Sequence[Reload]
) -> list[Figure]:
    """What cards add to a reload of the page, whose own time is until a cell's output is painted."""
    own = median([one["painted"] for one in without])
    first, all_of_them, drawn = (median([one[key] for one in reloads]) for key in ("first", "all", "drawn"))
    floor = {key: median([one[key] for one in floors]) for key in ("first", "all", "longest")}
    widgets = "as many of Jupyter's own widgets"
    beside = {"since the reload": first, "JupyterLab's own output": own, "from the snapshot to all": drawn}
    return [
        Figure(f"a reload with {cards} live cards, the first painted after JupyterLab itself", first - own, "ms",
               None, beside, Floor(floor["first"] - own, widgets)),
        Figure("... all painted after JupyterLab itself", all_of_them - own, "ms", Goal(1_500, "1.5 s for all"),
               floor=Floor(floor["all"] - own, widgets)),
        Figure("... longest frame", median([one["longest"] for one in reloads]), "ms",
               Goal(100, "100 ms for the longest frame"),
               {"of a reload without cards": median([one["longest"] for one in without])},
               Floor(floor["longest"], widgets)),
    ]  # fmt: skip


def _other(on: Stage, name: str, cell: str) -> str:
    """The address of a notebook whose one cell was run, and which has no agent."""
    path = on.lab.write_notebook(name, [cell])
    other = NotebookPage(on.lab, on.notebook.page.context.new_page(), path)
    other.run(0)
    other.save()
    other.page.close()
    return on.lab.page_url(path)


def _reload_without(on: Stage, address: str) -> Reload:
    on.notebook.page.goto(address)
    on.wait("() => bench.printed")
    on.notebook.page.wait_for_timeout(AFTER)
    painted = float(on.look("() => bench.printed - performance.timeOrigin"))
    return {"painted": painted, "longest": _longest(on, painted)}


def _reload_widgets(on: Stage, address: str, count: int) -> Reload:
    """As `_reload`; the longest frame is looked for from the one on that the first widget is made in."""
    on.notebook.page.goto(address)
    on.wait(f"() => bench.plain[{count}]")
    on.notebook.page.wait_for_timeout(AFTER)
    seen = {int(found): float(at) for found, at in on.look("() => bench.plain").items()}
    first = min(at for found, at in seen.items() if found > 0)
    before = max(float(at) for at in on.look("() => bench.frames") if at < first)
    return {"first": first, "all": seen[count], "longest": _longest(on, before)}


def _reload(on: Stage, cards: int) -> Reload:
    """Milliseconds since the reload, but for `drawn`: from the conversation's snapshot to the paint of all cards."""
    on.notebook.page.goto(on.lab.page_url(on.notebook.path))
    on.wait(f"() => bench.cards() >= {cards} && bench.answer()")
    on.notebook.page.wait_for_timeout(AFTER)
    drawn = {int(found): at for found, at in on.look("() => bench.drawn").items()}
    painted = float(min(at for found, at in drawn.items() if found >= cards))
    session = float(on.look("() => bench.session"))
    first = float(on.look("() => bench.firstCard"))
    return {"first": first, "all": painted, "drawn": painted - session, "longest": _longest(on, session)}


def _longest(on: Stage, since: float) -> float:
    """The longest time between two frames since then, in milliseconds."""
    frames = [at for at in on.look("() => bench.frames") if at >= since]
    return max(later - earlier for earlier, later in itertools.pairwise([since, *frames]))


def _pauses(on: Stage, seconds: float) -> list[float]:
    """Milliseconds between two frames while the answer streams, the shortest first."""
    before = on.look("() => bench.frames.length")
    on.notebook.page.wait_for_timeout(seconds * 1000)
    frames = on.look("() => bench.frames")[before:]
    return sorted(later - earlier for earlier, later in itertools.pairwise(frames))
