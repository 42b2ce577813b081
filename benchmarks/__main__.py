"""`python -m benchmarks`: run the scenarios, print one table, write JSON and a plot."""

import argparse
import ast
import os
import sys
import time
import traceback
from importlib import import_module
from pathlib import Path

from benchmarks.frame import WITHOUT_PEERS, Report, Skipped
from benchmarks.peers import are_current, install
from benchmarks.report import RESULTS, Circumstances, as_table, write_results
from benchmarks.scenarios import SCENARIOS

EPILOG = """The table's verdicts are of the ratios and bounds in the column `goal`; absolute times are the machine's.
All scenarios with three rounds take about a quarter of an hour. Those in JupyterLab are skipped where there is no
browser. Leave the machine alone meanwhile: the line below the table says how busy it was before. benchmarks/results has
the results too: latest.json with every single measurement, latest.svg once all that the plot shows was measured.
`python -m benchmarks.tables --write` makes the tables of docs/figures.md of them."""


def parse() -> argparse.Namespace:
    scenarios = "\n".join(f"  {name:<14}{_about(name)}" for name in SCENARIOS)
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=f"{__doc__}\n\nscenarios, in their order:\n{scenarios}",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--only", metavar="NAMES", default=",".join(SCENARIOS), help="some of them, with commas between"
    )
    parser.add_argument(
        "--rounds", type=int, default=3, help="measured rounds; the contenders take turns in each (default: 3)"
    )
    parser.add_argument(
        "--no-peers", action="store_true", help="measure against the raw floors only; nothing is installed"
    )
    parser.add_argument("--no-files", action="store_true", help="print the table only")
    parser.add_argument("--strict", action="store_true", help="exit with 1 where a goal is missed")
    options = parser.parse_args()
    options.only = [name.strip() for name in options.only.split(",") if name.strip()]
    if unknown := set(options.only) - set(SCENARIOS):
        parser.error(f"no such scenario: {', '.join(sorted(unknown))}. There are {', '.join(SCENARIOS)}.")
    if options.rounds < 1:
        parser.error("--rounds is 1 or more")
    return options


def _about(name: str) -> str:
    """The first sentence of a scenario's module, which is not imported for it."""
    text = (Path(__file__).parent / "scenarios" / f"{name}.py").read_text(encoding="utf-8")
    return (ast.get_docstring(ast.parse(text)) or "").splitlines()[0].removesuffix(".")


def main() -> int:
    options = parse()
    if options.no_peers:
        os.environ[WITHOUT_PEERS] = "1"
    elif not are_current():
        install()
    circumstances = Circumstances.now(options.rounds)
    reports: dict[str, Report] = {}
    failed: list[str] = []
    chosen = [name for name in SCENARIOS if name in options.only]
    for number, name in enumerate(chosen, start=1):
        begun = time.monotonic()
        try:
            reports[name] = import_module(f"benchmarks.scenarios.{name}").run(options.rounds)
        except Skipped as reason:
            print(f"{number} of {len(chosen)}: {name} is skipped: {reason}.", file=sys.stderr, flush=True)
            continue
        except Exception:  # noqa: BLE001 -- a failing scenario must not cost the figures of the others
            traceback.print_exc()
            failed.append(name)
            continue
        if not options.no_files:
            write_results(name, reports[name], circumstances)
        print(f"{number} of {len(chosen)}: {name}, {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
    print(as_table(reports, circumstances))
    if reports and not options.no_files:
        print(f"Every measurement: {RESULTS / 'latest.json'}", file=sys.stderr)
    if failed:
        print(f"Not measured, see above: {', '.join(failed)}", file=sys.stderr)
    missed = [figure for report in reports.values() for figure in report.figures if figure.verdict == "missed"]
    return 1 if failed or (options.strict and missed) else 0


if __name__ == "__main__":
    sys.exit(main())
