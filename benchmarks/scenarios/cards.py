"""500 live cards: their paint after a reload, by a reload without cards."""

import itertools
from collections.abc import Mapping

from benchmarks.frame import Figure, Goal, Report, median
from benchmarks.lab import LOAD, UNENDING, Stage, stage
from tests.e2e.lab import NotebookPage

CALLS = 500
ANSWER = "100:10000000"
"""Tokens and the microseconds between them: the run goes on, and its model is not silent for too long."""
AFTER = 1_000
"""Milliseconds after the last paint in which frames are still looked at."""
Reload = Mapping[str, float]


def cards(rounds: int, most: int = CALLS) -> Report:
    """500 live cards: their paint after a reload, by a reload without cards.

    The notebook's only run has made the calls and goes on: the records of earlier runs in the same notebook take
    JupyterLab time, some 0.4 ms a call.
    """
    reloads: list[Reload] = []
    without: list[Reload] = []
    model = f"held:nothing:{most}:{ANSWER}"
    with stage(model, [LOAD, f"%%agent --policy allow --model {model}\nGo on and on."], UNENDING) as on:
        on.notebook.run(0)
        on.notebook.run(1, wait=False)
        on.model.requests(most + 1, 300)
        on.wait(f"() => bench.cards() >= {most} && bench.answer()")
        plain = _other(on, "plain.ipynb", "print('plain')")
        on.notebook.save()
        for _ in range(min(5, 2 * rounds - 1)):  # a page's own reload varies by 100 ms
            without.append(_reload_without(on, plain))
            reloads.append(_reload(on, most))
        on.stop()
    own = median([one["painted"] for one in without])
    report = Report(raw={"reloads": reloads, "without cards": without})
    report.figures += [
        Figure(
            f"a reload with {most} live cards, all painted after JupyterLab itself",
            median([one["all"] for one in reloads]) - own,
            "ms",
            Goal(1_500, "1.5 s for all"),
            {"JupyterLab's own output": own},
        ),
        Figure(
            "... longest frame",
            median([one["longest"] for one in reloads]),
            "ms",
            Goal(100, "100 ms for the longest frame"),
            {"of a reload without cards": median([one["longest"] for one in without])},
        ),
    ]
    return report


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


def _reload(on: Stage, cards: int) -> Reload:
    """Milliseconds since the reload; the longest frame from the conversation's snapshot on."""
    on.notebook.page.goto(on.lab.page_url(on.notebook.path))
    on.wait(f"() => bench.cards() >= {cards} && bench.answer()")
    on.notebook.page.wait_for_timeout(AFTER)
    drawn = {int(found): float(at) for found, at in on.look("() => bench.drawn").items()}
    painted = min(at for found, at in drawn.items() if found >= cards)
    return {"all": painted, "longest": _longest(on, float(on.look("() => bench.session")))}


def _longest(on: Stage, since: float) -> float:
    """The longest time between two frames since then, in milliseconds."""
    frames = [at for at in on.look("() => bench.frames") if at >= since]
    return max(later - earlier for earlier, later in itertools.pairwise([since, *frames]))
