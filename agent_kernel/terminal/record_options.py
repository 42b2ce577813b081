"""The options of `agent-kernel record`."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]


def add_record_options(commands: "Commands") -> None:
    parser = commands.add_parser(
        "record",
        help="run a notebook and record what its models answer, for replay:PATH; all turns, or some anew",
        description="Cells that name a recording (--model replay:PATH, --record PATH) are recorded there, the others "
        "beside the notebook. The model is that of AGENT_KERNEL_MODEL or of your key. The notebook stays as it is.",
    )
    parser.add_argument("notebook", type=Path)
    turns = parser.add_mutually_exclusive_group()
    turns.add_argument("--turn", type=_number, metavar="N", help="record only the Nth turn anew, and keep all others")
    turns.add_argument("--from", type=_number, metavar="N", dest="first", help="play up to turn N, record from it on")
    parser.add_argument("--to", type=Path, metavar="PATH", help="the recording of cells that name none (NAME.jsonl)")
    parser.add_argument("--timeout", type=float, help="seconds that one cell may take (no limit)")


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 9 or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of a turn: 1 is the first")
    return int(text)
