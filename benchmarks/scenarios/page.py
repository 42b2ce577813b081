"""What a person notices in the page while an agent works: bytes, saves, tokens and typing."""

import itertools
import re

from benchmarks.frame import Figure, Goal, Report, median
from benchmarks.lab import LOAD, UNENDING, Stage, stage

SETTLE = 500
"""Milliseconds after a run's end in which what belongs to it may still come."""
CALLS = 200
SAVES = 15
"""Saves of each kind in each round: one takes 35 ms or 90, as JupyterLab's page happens to be idle or not."""
SAVE_MICROS = 300_000
"""Between two calls from then on: as a model does, the run goes on while the notebook is saved."""
TOKENS = 5_000
LETTERS = 60
LETTER_MS = 120
"""Between letters, as of somebody who types fast: without one, a queue of letters is measured."""
STREAM = "paced:3000:4000"
_WATCH = """() => {
  window.typed = [];
  document.addEventListener('keydown', ({ timeStamp }) => requestAnimationFrame(() => {
    const channel = new MessageChannel();  // after the frame was painted
    channel.port1.onmessage = () => typed.push(performance.now() - timeStamp);
    channel.port2.postMessage(0);
  }), true);
}"""
_WATCH_PLACE = """() => {
  window.moved = 0;
  const tops = new Map();
  const painted = new IntersectionObserver(entries => {
    for (const { target, boundingClientRect: { top } } of entries) {
      moved = Math.max(moved, Math.abs(top - (tops.get(target) ?? top)));
      tops.set(target, top);
      painted.unobserve(target);  // what is observed anew is told with the next frame
    }
  });
  const look = () => {
    for (const cell of [...document.querySelectorAll('.jp-Cell')].slice(2)) painted.observe(cell);
    requestAnimationFrame(look);
  };
  look();
}"""
"""Watches the cells below the run's, from painted frame to painted frame. Chrome's own count of layout shifts also has
what is put right before anything is painted."""


def page_bytes(rounds: int) -> Report:
    """What each `%%agent` sends to the page: on the kernel's WebSocket, on the channel, and by HTTP.

    Each round is a prompt in a cell of its own, and an empty cell, whose bytes are JupyterLab's. The first prompt in a
    page does not count: it may fetch what is cached from then on.
    """
    cells = [LOAD, *["%%agent\nSay it.", "pass"] * (rounds + 1)]
    with stage("text:5", cells, frames=False) as on:
        on.notebook.run(0)
        received = [_received(on, cell) for cell in range(1, len(cells))]
    prompts, empty = received[2::2], received[1::2]
    each = {way: median([one[way] for one in prompts]) for way in prompts[0]}
    beside = {**each, "JupyterLab's run of an empty cell": median([sum(one.values()) for one in empty])}
    what = "what each %%agent sends to the page"
    report = Report(raw={"prompts": prompts, "empty cells": empty})
    report.figures.append(Figure(what, sum(each.values()), "kB", Goal(50, "50 kB"), beside))
    return report


def _received(on: Stage, cell: int) -> dict[str, float]:
    """Kilobytes by the way that they took, over the whole run of a cell."""
    before = on.received()
    on.notebook.run(cell)
    on.notebook.record().nth((cell - 1) // 2).wait_for()
    on.notebook.page.wait_for_timeout(SETTLE)
    return {way: (size - before[way]) / 1e3 for way, size in on.received().items()}


def saving(rounds: int, calls: int = CALLS) -> Report:
    """A save of the notebook while a run of 200 calls goes on, by the same notebook's save without a run."""
    plain, during = [], []
    some = max(1, min(3, rounds - 1))  # two hundred calls a round
    with stage(f"endless:lines:{calls}:{SAVE_MICROS}", [LOAD, "%%agent --policy allow\nGo on."], UNENDING) as on:
        on.notebook.run(0)
        on.timed("docmanager:save")  # a warm-up
        for _ in range(some):
            on.notebook.command("notebook:clear-all-cell-outputs")
            plain += _saves(on)
            asked = len(on.model.requests())
            on.notebook.run(1, wait=False)
            on.model.requests(asked + calls + 1, 180)
            on.wait(f"() => bench.cards() >= {calls}")
            during += [_save_after_a_call(on) for _ in range(SAVES)]
            on.stop()
            on.notebook.record().wait_for()
    report = Report(raw={"without a run": plain, "during a run": during})
    beside = {"without a run": median(plain), "longest": max(during)}
    share = median(during) / median(plain)
    report.figures += [
        Figure(f"a save while a run with {calls} calls goes on", median(during), "ms", beside=beside),
        Figure("... by a save without a run", share, "x", Goal(2, "twice that")),
    ]
    return report


def _saves(on: Stage) -> list[float]:
    return [on.timed("docmanager:save") for _ in range(SAVES)]


def _save_after_a_call(on: Stage) -> float:
    """The run is another one than at the save before."""
    on.model.requests(len(on.model.requests()) + 1)
    return on.timed("docmanager:save")


def flood(rounds: int) -> Report:  # noqa: ARG001
    """Five thousand tokens through the server, the WebSocket and the widget: none may be lost."""
    with stage(f"text:{TOKENS}", [LOAD, "%%agent\nCount."]) as on:
        on.notebook.run_through(1)
        on.notebook.record().wait_for()
        found = {int(number) for number in re.findall(r"\b\d{4}\b", on.notebook.record().inner_text())}
        seqs = on.look("() => bench.seqs")
    gaps = sum(later - earlier != 1 for earlier, later in itertools.pairwise(seqs))
    report = Report(raw={"frames on the channel": len(seqs)})
    report.figures += [
        Figure("tokens lost of 5,000 on the way to the page", len(set(range(TOKENS)) - found), "", Goal(0, "none")),
        Figure("... gaps between the channel's frames", gaps, "", Goal(0, "none")),
    ]
    return report


def typing(rounds: int, letters: int = LETTERS) -> Report:
    """Typing in another cell while an answer streams, and what moves outside of the run's cell when it ends.

    Less than a pixel is no move: a notebook scrolls by whole ones.
    """
    waits: dict[str, list[float]] = {"without a run": [], "streaming": []}
    moves: list[float] = []
    for _ in range(max(1, rounds - 1)):
        with stage(STREAM, [LOAD, f"%%agent --model {STREAM}\nGo on.", "pass", "pass"], frames=False) as on:
            on.notebook.run(0)
            on.look(_WATCH)
            waits["without a run"] += _type(on, letters)
            on.notebook.run(1, wait=False)
            on.wait("() => bench.answer()")
            waits["streaming"] += _type(on, letters)
            on.look(_WATCH_PLACE)
            on.wait_for_end()
            on.notebook.page.wait_for_timeout(1_000)
            moves.append(on.look("() => moved"))
    report = Report(raw={"waits": waits, "moves": moves})
    p95 = {name: sorted(found)[len(found) * 95 // 100] for name, found in waits.items()}
    beside = {"without a run": p95["without a run"], "p50": median(waits["streaming"])}
    what = "a letter in another cell while an answer streams, p95"
    report.figures += [
        Figure(what, p95["streaming"], "ms", Goal(50, "50 ms"), beside),
        Figure("... what moves below the run's cell as it goes on and ends", max(moves) // 1, "px", Goal(0, "none")),
    ]
    return report


def _type(on: Stage, letters: int) -> list[float]:
    """Milliseconds from each key press to the end of the frame that follows it."""
    on.notebook.page.locator(".jp-Cell .cm-content").nth(3).click()
    before = on.look("() => typed.length")
    for _ in range(letters):
        on.notebook.page.keyboard.press("a")
        on.notebook.page.wait_for_timeout(LETTER_MS)
    on.wait(f"() => typed.length >= {before + letters}")
    found: list[float] = on.look(f"() => typed.slice({before})")
    return found
