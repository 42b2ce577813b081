"""The fault suite, as long as you like: `python -m tests.faults --rounds 500 --seed 1` prints the table of figures.

It ends with 1 where anything but the rounds and the kills is not zero, and names each fault with its round.
"""

import argparse
import sys
import time

from tests.faults import cell_rounds, mcp_rounds, page_rounds, runtime_rounds, server_rounds
from tests.faults.figures import Figures, table

SUITES = {
    "runtime": (runtime_rounds.run, 0.45),
    "runtime-kernel-gone": (runtime_rounds.run_kernel_gone, 0.1),
    "server": (server_rounds.run_server, 0.1),
    "mcp": (mcp_rounds.run_mcp, 0.05),
    "kernel": (server_rounds.run_kernel, 0.1),
    "habits": (page_rounds.run_habits, 0.1),
    "cells": (cell_rounds.run_cells, 0.05),
    "interrupts": (page_rounds.run_interrupts, 0.1),
}
"""What is played, and its share of the rounds."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--rounds", type=int, default=300, help="rounds in all, shared among the suites")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the number of the first round, to see one again")
    parser.add_argument("--only", choices=list(SUITES), help="one suite")
    options = parser.parse_args()
    figures: dict[str, Figures] = {}
    for name, (run, share) in SUITES.items():
        if options.only in (None, name):
            began = time.monotonic()
            rounds = max(1, round(options.rounds * (1 if options.only else share)))
            figures[name] = run(rounds, options.seed, options.first)
            sys.stderr.write(f"{name}: {time.monotonic() - began:.0f} s\n")
    sys.stdout.write(f"{table(figures)}\n\nseed {options.seed}, rounds from {options.first}\n")
    for one in figures.values():
        sys.stderr.writelines(f"{note}\n" for note in one.notes)
    return 0 if all(one.clean for one in figures.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
