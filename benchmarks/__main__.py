"""`python -m benchmarks`: run the scenarios, print one table, write JSON and a plot."""

import argparse
import os
import sys
import time
from importlib import import_module

from benchmarks.frame import WITHOUT_PEERS, Report, has_peers
from benchmarks.peers import install
from benchmarks.report import as_table, write_results
from benchmarks.scenarios import SCENARIOS


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", default=",".join(SCENARIOS), help=f"some of: {', '.join(SCENARIOS)}")
    parser.add_argument("--rounds", type=int, default=5, help="measured rounds of each contender (default: 5)")
    parser.add_argument("--no-peers", action="store_true", help="measure against the raw floors only")
    parser.add_argument("--no-files", action="store_true", help="print the table only")
    parser.add_argument("--strict", action="store_true", help="exit with 1 where a goal is missed")
    options = parser.parse_args()
    options.only = [name.strip() for name in options.only.split(",") if name.strip()]
    if unknown := set(options.only) - set(SCENARIOS):
        parser.error(f"no such scenario: {', '.join(sorted(unknown))}")
    return options


def main() -> int:
    options = parse()
    if options.no_peers:
        os.environ[WITHOUT_PEERS] = "1"
    elif not has_peers():
        install()
    reports: dict[str, Report] = {}
    for name in SCENARIOS:
        if name in options.only:
            begun = time.monotonic()
            reports[name] = import_module(f"benchmarks.scenarios.{name}").run(options.rounds)
            if not options.no_files:
                write_results({name: reports[name]})
            print(f"{name}: {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
    print(as_table(reports))
    missed = [figure for report in reports.values() for figure in report.figures if figure.verdict == "missed"]
    return 1 if options.strict and missed else 0


if __name__ == "__main__":
    sys.exit(main())
