"""Runs one notebook from top to bottom in a kernel of its own."""

import asyncio
import atexit
import contextlib
import tempfile
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

import nbformat
from jupyter_client.kernelspec import NoSuchKernel
from jupyter_core.utils import ensure_async
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

from agent_kernel.log.opening import LOG_VARIABLE
from agent_kernel.notebook.batch.agent_runs import delay_after, last_number, runs_after
from agent_kernel.notebook.batch.job import CellResult, Job, NotebookResult, Status, agent_log_of, count, plain
from agent_kernel.notebook.batch.parameters import inject
from agent_kernel.notebook.batch.progress import Progress
from agent_kernel.notebook.batch.result_file import ResultFile
from agent_kernel.record.words import delayed

STOP_SECONDS = 5.0
"""How long a cell that was interrupted has to end, and its run with it, before the kernel is ended."""
DELAY_SECONDS = 1.0
"""How often the agent's log is read for a wait for the model's service."""
STOPPED = "Stopped before its end."


class Execution:
    """One notebook on its way. `run` blocks its thread; `stop` may be called from any other one."""

    def __init__(self, job: Job, progress: Progress) -> None:
        self.job = job
        self._progress = progress
        self._lock = threading.Lock()
        self._stopped = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._client: NotebookClient | None = None
        self._log: TextIO | None = None
        self._cells: dict[int, CellResult] = {}
        """By the index of the cell: the code cells that are to be run, or were."""
        self._began = 0.0

    def stop(self) -> None:
        """Interrupt the cell that runs, and end the notebook there. A second call changes nothing."""
        with self._lock:
            self._stopped = True
            if self._loop is not None and self._stopping is not None:
                self._loop.call_soon_threadsafe(self._stopping.set)

    def run(self) -> NotebookResult:
        """Run the notebook and write it, unless it is to be run once and has begun before. Whatever it does, it ends in
        a result. Raises `OSError` if the notebook can't be read or written, and nbformat's errors for a file that is no
        notebook any more."""
        with self._lock:
            if self._stopped:
                return NotebookResult(self.job, "stopped", error=STOPPED)
        if self.job.log is None:
            result = self._start()
        else:
            with ResultFile(self.job, self.job.log) as file:
                result = file.begin() or self._start()
                if not result.earlier:
                    file.end(result)
        self._progress.on_end(result)
        return result

    def _start(self) -> NotebookResult:
        self._progress.on_start(self.job)
        return asyncio.run(self._run())

    async def _run(self) -> NotebookResult:
        with self._lock:
            self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
            if self._stopped:
                self._stopping.set()
        began = time.monotonic()
        document: Any = nbformat.read(self.job.notebook, as_version=4)
        self._prepare(document)
        with _logs(self.job) as (text_log, agent_log):
            self._log = text_log
            self._note(f"{self.job.notebook} began")
            known = last_number(agent_log)
            try:
                error = await self._execute(document, agent_log, known)
            finally:
                _write(document, self.job.output)
            cells = tuple(self._cells.values())
            failed = bool(error) or any(cell.status == "failed" for cell in cells)
            with self._lock:
                status: Status = "failed" if failed else "passed"
                if self._stopped and failed:
                    status = "stopped"
                self._loop = self._stopping = None  # a stop comes too late from here on
            runs = runs_after(agent_log, known)
            result = NotebookResult(self.job, status, cells, runs, time.monotonic() - began, error)
            for run in runs:
                calls = f"{count(run.calls, 'call')}, {run.denied} denied"
                self._note(f'run {run.run_id} "{run.prompt}": {run.status}, {calls}. {run.error}')
            self._note(f"{result.status} after {result.seconds:.1f} s. {error}")
        return result

    def _prepare(self, document: Any) -> None:
        if self.job.parameters is not None:
            inject(document, self.job.parameters)
        for index, cell in enumerate(document.cells):
            if cell.cell_type == "code":
                cell.update(outputs=[], execution_count=None)  # what is not reached must not look as if it had run
                if cell.source.strip():
                    self._cells[index] = CellResult(index + 1, "not_run")

    async def _execute(self, document: Any, agent_log: Path, known: int) -> str:
        """Run the cells. Returns why that ended early, or ""."""
        client = self._client = NotebookClient(
            document,
            timeout=self.job.timeout,
            allow_errors=self.job.allow_errors,
            record_timing=False,  # so that the same outputs give the same file
            resources={"metadata": {"path": str(self.job.notebook.resolve().parent)}},
            on_cell_execute=self._on_cell_begin,
            on_cell_executed=self._on_cell_end,
        )
        environ = {**self.job.environ, LOG_VARIABLE: str(agent_log)}
        # What the kernel's process itself prints, such as a fatal error of the interpreter, goes to the log.
        execution = asyncio.create_task(
            self._from_first_to_last(client, env=environ, stdout=self._log, stderr=self._log)
        )
        assert self._stopping is not None
        stopping = asyncio.create_task(self._stopping.wait())
        watching = asyncio.create_task(self._watch_delays(agent_log, known))
        try:
            await asyncio.wait({execution, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not execution.done():
                await self._interrupt(client, execution)
            await execution
        except CellExecutionError:
            return ""  # the cell's result says it
        except CellTimeoutError:
            self._fail_open_cell(f"The cell did not end within {self.job.timeout} s.")
            return ""
        except DeadKernelError:
            return self._fail_open_cell("The kernel died. The log of the notebook (--logs) has what it printed.")
        except (NoSuchKernel, RuntimeError, OSError) as error:
            return self._fail_open_cell(plain(f"{type(error).__name__}: {error}"))
        except asyncio.CancelledError:
            return self._fail_open_cell(STOPPED)
        finally:
            stopping.cancel()
            watching.cancel()
            await _end_kernel(client)
        return ""

    async def _from_first_to_last(self, client: NotebookClient, **options: Any) -> None:
        """Start the kernel, and run all cells. A kernel that dies before it answers is started once more: its ports are
        chosen before it starts, and where many do, somebody else may have taken one by then (jupyter_client issue 487).
        """
        try:
            await client.async_execute(**options)
        except RuntimeError as error:
            if self._began or self._stopped:
                raise
            self._note(f"The kernel did not start, and is started once more. {plain(str(error))}")
            await client.async_execute(**options)

    async def _watch_delays(self, agent_log: Path, known: int) -> None:
        since = ""
        while True:
            await asyncio.sleep(DELAY_SECONDS)
            # In a thread, because a log that its kernel holds alone can't be read, which takes seconds to find out.
            delay = await asyncio.to_thread(delay_after, agent_log, known)
            if delay is not None:
                words = " ".join(plain(f"{delayed(delay)}. {delay.cause}").split())
                if begins := delay.since != since:
                    self._note(words)
                self._progress.on_delay(self.job, words, begins=begins)
            elif since:
                self._progress.on_delay(self.job, "", begins=False)
            since = delay.since if delay is not None else ""

    async def _interrupt(self, client: NotebookClient, execution: "asyncio.Task[Any]") -> None:
        """Interrupt the cell, so that its run ends in an honest state; then end the notebook in any case."""
        if client.kc is not None and client.km is not None:
            with contextlib.suppress(RuntimeError):  # the kernel is gone
                await ensure_async(client.km.interrupt_kernel())
            await asyncio.wait({execution}, timeout=STOP_SECONDS)
        execution.cancel()

    def _on_cell_begin(self, cell_index: int, **_: Any) -> None:
        self._began = time.monotonic()
        self._note(f"cell {cell_index + 1} began")
        self._progress.on_cell(self.job, [*self._cells].index(cell_index) + 1, len(self._cells))

    def _on_cell_end(self, cell: Any, cell_index: int, execute_reply: dict[str, Any]) -> None:
        content = execute_reply["content"]
        seconds = time.monotonic() - self._began
        error = ""
        if content["status"] == "error":
            short = f"{content.get('ename', '')}: {content.get('evalue', '')}"
            traceback = plain("\n".join(content.get("traceback", [])))
            error = traceback if traceback.startswith(short) else plain(f"{short}\n{traceback}")
        expected = self.job.allow_errors or "raises-exception" in cell.metadata.get("tags", [])
        passed = content["status"] != "error" or expected
        number = cell_index + 1
        self._cells[cell_index] = CellResult(number, "passed" if passed else "failed", seconds, "" if passed else error)
        self._note(f"cell {number} {'ended' if not error else 'failed'} after {seconds:.1f} s. {error}")

    def _fail_open_cell(self, why: str) -> str:
        """The notebook ended in the middle of a cell, or between two. Returns why."""
        began = bool(self._began)
        for index, cell in self._cells.items():
            if cell.status == "not_run" and began:
                self._cells[index] = CellResult(cell.number, "failed", time.monotonic() - self._began, why)
                break
        return why

    def _note(self, line: str) -> None:
        if self._log is not None:
            now = datetime.now(UTC).isoformat(timespec="milliseconds")
            self._log.write(f"{now} {line.strip()}\n")
            self._log.flush()


@contextlib.contextmanager
def _logs(job: Job) -> Iterator[tuple[TextIO, Path]]:
    """The text log, open, and the path of the agent's log. Both are temporary if the job keeps none."""
    with tempfile.TemporaryDirectory(prefix="agent-kernel-run-", ignore_cleanup_errors=True) as scratch:
        path = job.log or Path(scratch) / "notebook.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as text_log:
            yield text_log, agent_log_of(path).resolve()


def _write(document: Any, output: Path) -> None:
    """Write the notebook, whole or not at all: it may replace the one that was run."""
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", dir=output.parent, prefix=f".{output.name}-", delete=False
    ) as file:
        nbformat.write(document, file)
    if output.exists():
        Path(file.name).chmod(output.stat().st_mode)
    Path(file.name).replace(output)


async def _end_kernel(client: NotebookClient) -> None:
    """End the kernel, if nbclient has not: it does not when it is cancelled while the kernel starts. Where the kernel
    did not start, it would still end it when Python exits, and print that there is none."""
    atexit.unregister(client._cleanup_kernel)
    if client.km is not None and client.km.has_kernel:
        await ensure_async(client.km.shutdown_kernel(now=True))
