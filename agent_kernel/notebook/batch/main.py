"""`agent-kernel run` and `agent-kernel report`."""

import argparse
import os
import sys
import time
from pathlib import Path

from agent_kernel.command_line import FAILED, INTERRUPTED, PASSED
from agent_kernel.errors import ConfigurationError
from agent_kernel.notebook.batch.plan import plan
from agent_kernel.notebook.batch.progress import Progress
from agent_kernel.notebook.batch.report import as_markdown, as_text, collect, write_junit
from agent_kernel.tools.builtin.safe_open import replace_file


def run_command(options: argparse.Namespace) -> int:
    """Run the notebooks, and write what the options ask for. Returns the exit status. Raises `ConfigurationError` if
    nothing was run, `OSError` if the report can't be written."""
    from agent_kernel.notebook.batch.execute import run_all  # it wants nbclient, a report does not

    jobs = plan(options, os.environ)
    progress = Progress(len(jobs), sys.stdout)
    began = time.monotonic()
    results = run_all(jobs, options.jobs, progress)
    progress.finish(results, time.monotonic() - began)
    if options.junit is not None:
        write_junit({result.notebook: result for result in results}, options.junit)
    statuses = {result.status for result in results}
    return INTERRUPTED if "stopped" in statuses else PASSED if statuses <= {"passed"} else FAILED


def report_command(options: argparse.Namespace) -> int:
    """Read the folder, print the summary, and write what the options ask for. Returns the exit status. Raises
    `ConfigurationError` where there is nothing to report, `OSError`."""
    report, trail = collect(options.logs, _expected(options.expect))
    if options.json is not None:
        _write(options.json, report.model_dump_json(indent=1))
    if options.markdown is not None:
        _write(options.markdown, as_markdown(report))
    if options.junit is not None:
        write_junit({one.name: one for one in report.notebooks}, options.junit)
    if options.audit is not None:
        _write(options.audit, "\n".join(trail))
    sys.stdout.write(f"{as_text(report)}\n")
    return PASSED if report.passed else FAILED


def _expected(path: Path | None) -> list[str]:
    """The names that a file has, one a line. Raises `ConfigurationError`."""
    if path is None:
        return []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"The names of --expect can't be read: {error}") from None
    return [line.strip() for line in lines if line.strip()]


def _write(path: Path, text: str) -> None:
    """Raises `OSError`; the old file is whole then."""
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path.resolve(), f"{text}\n".encode() if text else b"")
