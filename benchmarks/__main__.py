"""`python -m benchmarks`: run the scenarios, print one table, write JSON."""

import argparse
import ast
import os
import shutil
import subprocess
import sys
import time
import traceback
import venv
from importlib import import_module
from pathlib import Path

from benchmarks.frame import PEERS_PYTHON, WITHOUT_PEERS, Report, Skipped, has_peers
from benchmarks.report import RESULTS, as_table, circumstances, write_page, write_results
from benchmarks.scenarios import SCENARIOS

EPILOG = """The table's verdicts are of the ratios and bounds in the column `goal`; absolute times are the machine's.
All scenarios with three rounds take about a quarter of an hour. Those in JupyterLab are skipped where there is no
browser. Leave the machine alone meanwhile: the line below the table says how busy it was before."""
PEERS = Path(__file__).with_name("peers.txt")
INSTALLED = PEERS_PYTHON.parents[1] / PEERS.name
"""A copy of the requirements that are installed beside it."""


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
    parser.add_argument("--write", action="store_true", help="put it into docs/figures.md too, if all was measured")
    options = parser.parse_args()
    options.only = [name.strip() for name in options.only.split(",") if name.strip()]
    if unknown := set(options.only) - set(SCENARIOS):
        parser.error(f"no such scenario: {', '.join(sorted(unknown))}. There are {', '.join(SCENARIOS)}.")
    if options.rounds < 1:
        parser.error("--rounds is 1 or more")
    return options


def _about(name: str) -> str:
    """The first sentence of a scenario's docstring; its module is not imported for it."""
    text = (Path(__file__).parent / "scenarios" / f"{SCENARIOS[name]}.py").read_text(encoding="utf-8")
    functions = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef) and node.name == name]
    return (ast.get_docstring(functions[0]) or "").splitlines()[0].removesuffix(".")


def install() -> None:
    """Make or remake the peer's environment. If that fails, the project is measured against the raw baselines."""
    place = INSTALLED.parent
    print(f"Installing the peer into {place} (once, about a minute)", file=sys.stderr, flush=True)
    shutil.rmtree(place, ignore_errors=True)
    fresh = place.with_name("bench-peers.new")
    venv.create(fresh, with_pip=True, clear=True)
    pip = [fresh / "bin" / "python", "-m", "pip", "install", "--quiet", "-r", PEERS]
    if subprocess.run(pip, check=False).returncode == 0:
        shutil.copy(PEERS, fresh)
        fresh.rename(place)
    else:
        print("It could not be installed, see above, so the goals by it are left out.", file=sys.stderr)


def main() -> int:
    options = parse()
    if options.no_peers:
        os.environ[WITHOUT_PEERS] = "1"
    elif not (has_peers() and INSTALLED.exists() and INSTALLED.read_text() == PEERS.read_text()):
        install()
    made = circumstances(options.rounds)
    reports: dict[str, Report] = {}
    failed: list[str] = []
    chosen = [name for name in SCENARIOS if name in options.only]
    for number, name in enumerate(chosen, start=1):
        begun = time.monotonic()
        try:
            measure = getattr(import_module(f"benchmarks.scenarios.{SCENARIOS[name]}"), name)
            reports[name] = measure(options.rounds)
        except Skipped as reason:
            print(f"{number} of {len(chosen)}: {name} is skipped: {reason}.", file=sys.stderr, flush=True)
            continue
        except Exception:  # noqa: BLE001 -- a failing scenario must not cost the figures of the others
            traceback.print_exc()
            failed.append(name)
            continue
        print(f"{number} of {len(chosen)}: {name}, {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
    table = as_table(reports, made)
    print(table)
    if options.write and set(reports) == set(SCENARIOS):
        write_page(table)
    write_results(reports, made)
    print(f"Every measurement: {RESULTS}", file=sys.stderr)
    if failed:
        print(f"Not measured, see above: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
