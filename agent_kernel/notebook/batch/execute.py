"""Runs notebooks from top to bottom by nbclient, each in a kernel of its own, several at once."""

import asyncio
import contextlib
import signal
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

import nbformat
from jupyter_client.kernelspec import NoSuchKernel
from jupyter_core.utils import ensure_async
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

from agent_kernel.log.opening import LOG_VARIABLE
from agent_kernel.notebook.batch.job import CellResult, Job, NotebookResult, agent_log_of, plain
from agent_kernel.notebook.batch.report import Progress
from agent_kernel.notebook.batch.result_file import ResultFile, agent_runs, begun
from agent_kernel.tools.builtin.safe_open import replace_file

PARAMETERS, INJECTED = "parameters", "injected-parameters"
"""Tags of cells, as papermill has them."""
STOP_SECONDS = 5.0
"""How long a cell that was interrupted has to end, and its run with it, before the kernel is ended."""
STOPPED = "Stopped before its end."
DEAD = "The kernel died. The log of the notebook (--logs) has what it printed."


def run_all(jobs: Sequence[Job], workers: int, progress: Progress) -> list[NotebookResult]:
    """Run the notebooks and return their results in the order of the jobs.

    Ctrl+C and SIGTERM stop all of them: cells that run are interrupted, what has not begun does not begin, and no
    kernel is left. In another thread than the main one, such as a scheduler's worker, signals are not for them.
    """
    return asyncio.run(_run_all([Execution(job, progress) for job in jobs], workers))


async def _run_all(executions: Sequence["Execution"], workers: int) -> list[NotebookResult]:
    room, loop = asyncio.Semaphore(workers), asyncio.get_running_loop()

    async def run(execution: Execution) -> NotebookResult:
        async with room:
            return await execution.run()

    def stop() -> None:
        for execution in executions:
            execution.stopped.set()

    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            with contextlib.suppress(NotImplementedError):  # Windows
                loop.add_signal_handler(number, stop)
    return await asyncio.gather(*map(run, executions))


class Execution:
    """One notebook on its way."""

    def __init__(self, job: Job, progress: Progress) -> None:
        self._job = job
        self._progress = progress
        self.stopped = asyncio.Event()
        """Set to interrupt the cell that runs, and to end the notebook there."""
        self._log: TextIO | None = None
        self._cells: dict[int, CellResult] = {}
        """By the index of the cell: the code cells that are to be run, or were."""
        self._began = 0.0

    async def run(self) -> NotebookResult:
        """Run the notebook and write it, unless it is to be run once and has begun before. Whatever it does, it ends in
        a result: one that can't be read, or written, does not take those of others with it."""
        begins = begun(self._job)
        if self.stopped.is_set():
            return begins.model_copy(update={"status": "stopped", "error": STOPPED})
        try:
            if self._job.log is None:
                result = await self._run(begins)
            else:
                with ResultFile(self._job, self._job.log) as file:
                    # In a thread: another run of this notebook may hold the file for some seconds.
                    earlier = await asyncio.to_thread(file.begin, begins)
                    result = earlier or await self._run(begins)
                    if earlier is None:
                        file.end(result)
        except Exception as error:  # noqa: BLE001 -- the result says it
            result = _failed(begins, error)
        self._progress.on_end(result)
        return result

    async def _run(self, begins: NotebookResult) -> NotebookResult:
        self._progress.on_start(self._job)
        began = time.monotonic()
        try:
            document: Any = nbformat.read(self._job.notebook, as_version=4)
            self._prepare(document)
            with _open_log(self._job) as (self._log, path):
                self._note(f"{self._job.notebook} began")
                try:
                    error = await self._execute(document, agent_log_of(path).resolve())
                finally:
                    replace_file(self._job.output.resolve(), f"{nbformat.writes(document)}\n".encode())
                runs = (await asyncio.to_thread(agent_runs, path))[begins.earlier_runs :]
                failed = bool(error) or any(cell.status == "failed" for cell in self._cells.values())
                status = "passed" if not failed else "stopped" if self.stopped.is_set() else "failed"
                seconds = time.monotonic() - began
                for run in runs:
                    self._note(f"run {run.words}")
                self._note(f"{status} after {seconds:.1f} s. {error}")
        except Exception as error:  # noqa: BLE001 -- the result says it
            return _failed(begins, error)
        said = {"status": status, "cells": tuple(self._cells.values()), "runs": runs, "seconds": seconds}
        return begins.model_copy(update=said | {"error": error})

    def _prepare(self, document: Any) -> None:
        if self._job.parameters is not None:
            inject(document, self._job.parameters)
        for index, cell in enumerate(document.cells):
            if cell.cell_type == "code":
                cell.update(outputs=[], execution_count=None)  # what is not reached must not look as if it had run
                if cell.source.strip():
                    self._cells[index] = CellResult(index + 1, "not_run")

    async def _execute(self, document: Any, agent_log: Path) -> str:
        """Run the cells. Returns why that ended early, or ""."""
        client = NotebookClient(
            document,
            timeout=self._job.timeout,
            allow_errors=self._job.allow_errors,
            record_timing=False,  # so that the same outputs give the same file
            resources={"metadata": {"path": str(self._job.notebook.resolve().parent)}},
            on_cell_execute=self._on_cell_begin,
            on_cell_executed=self._on_cell_end,
        )
        execution = asyncio.create_task(self._from_first_to_last(client, agent_log))
        stopped = asyncio.create_task(self.stopped.wait())
        try:
            await asyncio.wait({execution, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if not execution.done():
                await self._interrupt(client, execution)
            await execution
        except CellExecutionError:
            return ""  # the cell's result says it
        except CellTimeoutError:
            self._fail_open_cell(f"The cell did not end within {self._job.timeout} s.")
            return ""
        except (DeadKernelError, asyncio.CancelledError):
            return self._fail_open_cell(STOPPED if self.stopped.is_set() else DEAD)
        except (NoSuchKernel, RuntimeError, OSError) as error:
            return self._fail_open_cell(plain(f"{type(error).__name__}: {error}"))
        finally:
            stopped.cancel()
            await _end_kernel(client)
        return ""

    async def _from_first_to_last(self, client: NotebookClient, agent_log: Path) -> None:
        """As nbclient's `async_execute`, but signals are left to `run_all`."""
        client.create_kernel_manager()
        environ = {**self._job.environ, LOG_VARIABLE: str(agent_log)}
        # What the kernel's process itself prints, such as a fatal error of the interpreter, goes to the log.
        await client.async_start_new_kernel(env=environ, stdout=self._log, stderr=self._log)
        await client.async_start_new_kernel_client()
        assert client.kc is not None
        told: Any = await client.async_wait_for_reply(await ensure_async(client.kc.kernel_info()))
        client.nb.metadata["language_info"] = told["content"]["language_info"]
        for index, cell in enumerate(client.nb.cells):
            await client.async_execute_cell(cell, index, execution_count=client.code_cells_executed + 1)
        client.set_widgets_metadata()

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

    def _on_cell_end(self, cell: Any, cell_index: int, execute_reply: dict[str, Any]) -> None:
        content, seconds, error = execute_reply["content"], time.monotonic() - self._began, ""
        if content["status"] == "error":
            short = f"{content.get('ename', '')}: {content.get('evalue', '')}"
            traceback = plain("\n".join(content.get("traceback", [])))
            error = traceback if traceback.startswith(short) else plain(f"{short}\n{traceback}")
        passes = not error or self._job.allow_errors or "raises-exception" in cell.metadata.get("tags", [])
        number = cell_index + 1
        self._cells[cell_index] = CellResult(number, "passed" if passes else "failed", seconds, "" if passes else error)
        self._note(f"cell {number} {'ended' if not error else 'failed'} after {seconds:.1f} s. {error}")

    def _fail_open_cell(self, why: str) -> str:
        """The notebook ended in the middle of a cell, or between two. Returns why."""
        for index, cell in self._cells.items():
            if cell.status == "not_run" and self._began:
                self._cells[index] = CellResult(cell.number, "failed", time.monotonic() - self._began, why)
                break
        return why

    def _note(self, line: str) -> None:
        assert self._log is not None
        self._log.write(f"{datetime.now(UTC).isoformat(timespec='milliseconds')} {line.strip()}\n")
        self._log.flush()


def _failed(begins: NotebookResult, error: Exception) -> NotebookResult:
    return begins.model_copy(update={"status": "failed", "error": plain(f"{type(error).__name__}: {error}")})


def inject(document: nbformat.NotebookNode, source: str) -> None:
    """Put the cell behind the one tagged `parameters`, or at the top. One that was put in before is replaced."""
    cells = [cell for cell in document.cells if INJECTED not in cell.metadata.get("tags", [])]
    tagged = [place for place, cell in enumerate(cells) if PARAMETERS in cell.metadata.get("tags", [])]
    cell = nbformat.v4.new_code_cell(source, id=INJECTED, metadata={"tags": [INJECTED]})
    if (document.nbformat, document.nbformat_minor) < (4, 5):
        del cell["id"]  # such notebooks have none
    cells.insert(tagged[0] + 1 if tagged else 0, cell)
    document.cells = cells


@contextlib.contextmanager
def _open_log(job: Job) -> Iterator[tuple[TextIO, Path]]:
    """The text log and its path. It is temporary if the job keeps none."""
    with tempfile.TemporaryDirectory(prefix="agent-kernel-run-", ignore_cleanup_errors=True) as scratch:
        path = job.log or Path(scratch) / "notebook.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as text_log:
            yield text_log, path


async def _end_kernel(client: NotebookClient) -> None:
    if client.kc is not None:
        client.kc.stop_channels()
    if client.km is not None and client.km.has_kernel:
        with contextlib.suppress(RuntimeError):  # it has died meanwhile
            await ensure_async(client.km.shutdown_kernel())
