"""Typing in another cell while an answer streams, and what moves outside of the run's cell when it ends."""

from benchmarks.frame import Figure, Goal, Report, median
from benchmarks.lab import LOAD, Stage, stage

LETTERS = 60
PAUSE_MS = 120
"""Between letters, as of somebody who types fast: without one, a queue of letters is measured."""
STREAM = "paced:3000:4000"
_WATCH = """() => {
  window.typed = [];
  document.addEventListener('keydown', ({ timeStamp }) => requestAnimationFrame(() => {
    const channel = new MessageChannel();  // after the frame was painted
    channel.port1.onmessage = () => typed.push(performance.now() - timeStamp);
    channel.port2.postMessage(0);
  }), true);
  window.shifts = [];
  const runCell = document.querySelectorAll('.jp-Cell')[1];
  new PerformanceObserver(list => {
    for (const { value, startTime, sources } of list.getEntries()) {
      const outside = sources.some(({ node }) => node && !runCell.contains(node));
      if (outside) shifts.push({ value, startTime });
    }
  }).observe({ type: 'layout-shift', buffered: true });
}"""


def run(rounds: int, letters: int = LETTERS) -> Report:
    waits: dict[str, list[float]] = {"without a run": [], "streaming": []}
    shifts: list[float] = []
    for _ in range(max(1, rounds - 1)):
        with stage(STREAM, [LOAD, f"%%agent --model {STREAM}\nGo on.", "pass", "pass"], frames=False) as on:
            on.notebook.run(0)
            on.look(_WATCH)
            waits["without a run"] += _type(on, letters)
            on.notebook.run(1, wait=False)
            on.wait("() => bench.answer()")
            waits["streaming"] += _type(on, letters)
            before = on.look("() => performance.now()")
            on.wait_for_end()
            on.notebook.page.wait_for_timeout(1_000)
            shifts.append(sum(one["value"] for one in on.look("() => shifts") if one["startTime"] > before))
    report = Report(raw={"waits": waits, "shifts": shifts})
    p95 = {name: sorted(found)[len(found) * 95 // 100] for name, found in waits.items()}
    report.figures += [
        Figure(
            "a letter in another cell while an answer streams, p95",
            p95["streaming"],
            "ms",
            Goal(50, "50 ms"),
            {"without a run": p95["without a run"], "p50": median(waits["streaming"])},
        ),
        Figure("... layout shift outside of the run's cell at its end", max(shifts), "", Goal(0, "none")),
    ]
    return report


def _type(on: Stage, letters: int) -> list[float]:
    """Milliseconds from each key press to the end of the frame that follows it."""
    on.notebook.page.locator(".jp-Cell .cm-content").nth(3).click()
    before = on.look("() => typed.length")
    for _ in range(letters):
        on.notebook.page.keyboard.press("a")
        on.notebook.page.wait_for_timeout(PAUSE_MS)
    on.wait(f"() => typed.length >= {before + letters}")
    found: list[float] = on.look(f"() => typed.slice({before})")
    return found
