"""`agent-kernel run`."""

import argparse
import os
import sys
import time

from agent_kernel.notebook.batch.junit import write_junit
from agent_kernel.notebook.batch.plan import plan
from agent_kernel.notebook.batch.pool import run_all
from agent_kernel.notebook.batch.progress import Progress
from agent_kernel.options import FAILED, INTERRUPTED, PASSED


def run_command(options: argparse.Namespace) -> int:
    """Run the notebooks, and write what the options ask for. Returns the exit status. Raises `ConfigurationError` if
    nothing was run, `OSError` if the report can't be written."""
    jobs = plan(options, os.environ)
    progress = Progress(len(jobs), sys.stdout)
    began = time.monotonic()
    results = run_all(jobs, options.jobs, progress)
    progress.finish(results, time.monotonic() - began)
    if options.junit is not None:
        write_junit(results, options.junit)
    statuses = {result.status for result in results}
    return INTERRUPTED if "stopped" in statuses else PASSED if statuses <= {"passed"} else FAILED
