"""Makes demos again: `python -m tests.demos NAME ...` records the notebook, plays the recording, and saves the outputs.

The quickstart is not recorded: its recording is a part of the package, `agent_kernel/models/recordings/demo.jsonl`.
"""

import argparse

from tests.demos.run import NAMES, record, run_notebook, save

ALL = ("quickstart", *NAMES)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.demos", description=__doc__)
    parser.add_argument("names", nargs="*", default=ALL, metavar="NAME", help=f"{', '.join(ALL)}; default: all")
    for name in parser.parse_args().names:
        if name in NAMES:
            record(name)
        save(name, run_notebook(name))


if __name__ == "__main__":
    main()
