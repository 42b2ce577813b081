"""Runs one notebook with hundreds of parameters on a Dask cluster: each once, or reported.

    python run.py --notebooks 300 --workers 4            # a cluster of processes on this machine
    python run.py --scheduler tcp://scheduler:8786       # yours; its workers share this folder

Dask gives the tasks of a worker that died to another one. `agent-kernel run --once` then finds what has begun and does
not run it again. Started again, a batch goes on where it was. Ctrl+C lets the notebooks end that run.
"""

import argparse
import contextlib
import io
import os
import random
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import dask
from distributed import Client, LocalCluster, WorkerPlugin, as_completed

HERE = Path(__file__).resolve().parent
RECORDED = "replay:penguin.jsonl"
PENGUINS = 344
STOP = "stop"
"""A file of this name in the folder keeps notebooks from beginning."""


def name_of(row: int) -> str:
    return f"penguin-{row:03}"


def run_notebook(row: int, here: str, folder: str, model: str, options: Sequence[str]) -> tuple[int, str]:
    """Run the notebook for one penguin. On a worker. Returns the exit status, and what the command said."""
    from agent_kernel.cli import main as agent_kernel

    target, notebook, name = Path(folder), Path(here) / "penguin.ipynb", name_of(row)
    if (target / STOP).exists():
        return 130, f"stopped {name}  (before it began)"
    os.environ["AGENT_KERNEL_MODEL"] = model
    command = ["run", str(notebook), "-p", "row", str(row)]
    command += ["-p", "finding", str(target / "findings" / f"{name}.csv")]
    command += ["--output", str(target / "done" / f"{name}.ipynb"), "--logs", str(target / "logs"), "--once", *options]
    said = io.StringIO()
    # In this process, so that the kernel ends with the worker. A worker has one thread, so the output is its alone.
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        status = agent_kernel(command)
    return status, said.getvalue().replace(str(notebook), name)


class Uninterrupted(WorkerPlugin):
    """Has workers on this machine outlive the Ctrl+C that is meant for this program."""

    def setup(self, worker: object) -> None:  # noqa: ARG002 -- Dask's signature
        signal.signal(signal.SIGINT, lambda *_: None)


class Killer:
    """Kills workers on the way, as a cluster loses machines."""

    def __init__(self, client: Client, kills: int, notebooks: int, seed: int | None) -> None:
        self._client = client
        self._chance = random.Random(seed)
        self._after = sorted(self._chance.sample(range(1, notebooks), kills))
        """After how many notebooks a worker dies."""

    def look(self, done: int) -> None:
        while self._after and done >= self._after[0]:
            self._after.pop(0)
            time.sleep(self._chance.uniform(0, 2))  # anywhere in a notebook
            workers = self._client.run(os.getpid, on_error="ignore")
            if workers:
                process = self._chance.choice(sorted(workers.values()))
                print(f"killed  worker {process}", flush=True)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)


def main() -> int:
    options = _options()
    folder: Path = options.directory.resolve()
    (folder / "findings").mkdir(parents=True, exist_ok=True)
    (folder / STOP).unlink(missing_ok=True)
    names = [name_of(row) for row in range(options.notebooks)]
    (folder / "names.txt").write_text("\n".join(names) + "\n", encoding="utf-8")
    with _connected(options) as client:
        client.register_plugin(Uninterrupted())
        futures = client.map(
            run_notebook,
            range(options.notebooks),
            key=names,
            here=str(HERE),
            folder=str(folder),
            model=os.environ.get("AGENT_KERNEL_MODEL") or RECORDED,
            options=["--again"] if options.again else [],
        )
        killer = Killer(client, options.kill, options.notebooks, options.seed)
        completed = as_completed(futures)
        try:
            _follow(completed, len(futures), killer)
        except KeyboardInterrupt:
            (folder / STOP).touch()
            print("Ctrl+C: waiting for the notebooks that run. Once more ends them.", flush=True)
            with contextlib.suppress(KeyboardInterrupt):
                _follow(completed, len(futures), killer)
    return _report(folder)


def _follow(completed: as_completed, notebooks: int, killer: Killer) -> None:
    """Print what becomes of each notebook."""
    for future in completed:
        done = notebooks - completed.count()
        error = future.exception()
        text = f"lost    {future.key}  {error!r}" if error is not None else future.result()[1]
        lines = [line for line in text.splitlines() if line.strip() and not line.startswith(("started", "1 notebook"))]
        print(f"{done:>4}/{notebooks} " + "\n".join(lines), flush=True)
        killer.look(done)


@contextlib.contextmanager
def _connected(options: argparse.Namespace) -> Iterator[Client]:
    """A client of the cluster that is wanted. One of this program's own ends with it."""
    if options.scheduler is not None:
        with Client(options.scheduler) as client:
            yield client
        return
    # A task is given to another worker as often as it takes: what has begun is not run again, and what has not may be.
    dask.config.set({"distributed.scheduler.allowed-failures": 1_000_000})
    page = "127.0.0.1:0"  # Dask's own, on any free port
    cluster = LocalCluster(n_workers=options.workers, threads_per_worker=1, dashboard_address=page, silence_logs=50)
    with cluster, Client(cluster) as client:
        yield client


def _report(folder: Path) -> int:
    from agent_kernel.cli import main as agent_kernel

    command = ["report", str(folder / "logs"), "--expect", str(folder / "names.txt")]
    for option, name in (("json", "report.json"), ("junit", "report.xml")):
        command += [f"--{option}", str(folder / name)]
    status = agent_kernel([*command, "--audit", str(folder / "audit.jsonl")])
    print(f"The report is in {folder}: report.json, report.xml, audit.jsonl")
    return status


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Run a notebook for each of many penguins on a Dask cluster.")
    parser.add_argument("--notebooks", type=int, default=24, help=f"how many, up to {PENGUINS} (%(default)s)")
    parser.add_argument("--workers", type=int, default=2, help="processes of a cluster on this machine (%(default)s)")
    parser.add_argument("--scheduler", metavar="ADDRESS", help="a cluster of yours; its workers share the folders")
    parser.add_argument("--directory", type=Path, default=HERE / ".agent-kernel", help="where everything goes")
    parser.add_argument("--again", action="store_true", help="run what did not pass, or died, once more")
    parser.add_argument(
        "--kill", type=int, default=0, metavar="N", help="kill a worker so many times, to see what comes"
    )
    parser.add_argument("--seed", type=int, help="of the moments at which workers are killed")
    options = parser.parse_args()
    if not 1 <= options.notebooks <= PENGUINS:
        parser.error(f"--notebooks is from 1 to {PENGUINS}")
    if options.kill and options.scheduler is not None:
        parser.error("--kill is for the cluster on this machine: it would kill a process of another one")
    if not 0 <= options.kill < options.notebooks:
        parser.error("--kill is less than --notebooks")
    return options


if __name__ == "__main__":
    sys.exit(main())
