"""`agent-kernel run` and `agent-kernel report`. What is wrong with the options is said before anything runs.

Parameters are as papermill has them: a cell that is put behind the one tagged `parameters`.
"""

import argparse
import keyword
import os
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import nbformat
from nbformat.reader import NotJSONError

from agent_kernel.approvals.scripted import VARIABLE, approval_mode
from agent_kernel.command_line import FAILED, INTERRUPTED, PASSED
from agent_kernel.errors import ConfigurationError
from agent_kernel.notebook.batch.job import Job
from agent_kernel.notebook.batch.report import Progress, as_text, collect, write_junit
from agent_kernel.notebook.batch.result_file import misfit
from agent_kernel.tools.builtin.safe_open import replace_file

Value = bool | int | float | str | None


def run_command(options: argparse.Namespace) -> int:
    """Run the notebooks, and write what the options ask for. Returns the exit status. Raises `ConfigurationError` if
    nothing was run, `OSError` if the report can't be written."""
    from agent_kernel.notebook.batch.execute import run_all  # it wants nbclient, a report does not

    jobs = plan(options, os.environ)
    progress = Progress(sys.stdout)
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


def plan(options: argparse.Namespace, environ: Mapping[str, str]) -> list[Job]:
    """One job for each notebook. Raises `ConfigurationError`, which names every file that is no notebook."""
    if options.once and options.logs is None:
        raise ConfigurationError("--once needs --logs DIR: what has begun is noted there.")
    if options.again and not options.once:
        raise ConfigurationError("--again goes with --once: without it, every notebook is run.")
    notebooks: list[Path] = options.notebooks
    output: Path | None = options.output
    faults = [fault for fault in map(fault_of, notebooks) if fault]
    if faults:
        raise ConfigurationError("\n".join(faults))
    is_file = output is not None and len(notebooks) == 1 and output.suffix == ".ipynb"

    def job(notebook: Path, name: Path) -> Job:
        executed = notebook if output is None else output if is_file else output / name
        # Logs are named after the executed notebook: one notebook may be run with many parameters.
        log = (Path(executed.name) if is_file else name).with_suffix(".log")
        return Job(
            notebook=notebook,
            output=executed,
            log=options.logs / log if options.logs is not None else None,
            parameters=parameters_cell(options.parameters),
            environ={**environ, VARIABLE: options.approve or approval_mode(environ)},
            timeout=options.timeout,
            allow_errors=options.allow_errors,
            once=options.once,
            again=options.again,
        )

    jobs = [job(notebook, name) for notebook, name in zip(notebooks, _names(notebooks), strict=True)]
    faults = [fault for one in jobs if one.once and (fault := misfit(one))]
    if faults:
        raise ConfigurationError("\n".join(faults))
    return jobs


def _names(notebooks: Sequence[Path]) -> list[Path]:
    """The notebooks' paths below the folder that they have in common, so that equal names stay apart. Raises
    `ConfigurationError` for a notebook that is given twice."""
    resolved = [notebook.resolve() for notebook in notebooks]
    twice = [str(path) for path, times in Counter(resolved).items() if times > 1]
    if twice:
        raise ConfigurationError(f"Given twice: {', '.join(twice)}. Two kernels would write the same file.")
    common = Path(os.path.commonpath([path.parent for path in resolved]))
    return [path.relative_to(common) for path in resolved]


def fault_of(notebook: Path) -> str:
    """Why a file can't be run; "" if it can."""
    try:
        nbformat.validate(nbformat.read(notebook, as_version=4))
    except FileNotFoundError:
        return f"There is no notebook {notebook}."
    except (OSError, UnicodeDecodeError) as error:
        return f"{notebook} can't be read: {error}"
    except (NotJSONError, AttributeError, KeyError, TypeError, nbformat.ValidationError) as error:
        # Half a file, for example: nbformat says at length what it found instead.
        return f"{notebook} is no notebook, or was not saved whole: {str(error)[:200]}"
    return ""


def parameters_cell(pairs: Sequence[tuple[str, str]]) -> str | None:
    """The source of the cell; `None` without parameters. Raises `ConfigurationError` for a name that Python can't
    assign to."""
    for name, _ in pairs:
        if not name.isidentifier() or keyword.iskeyword(name):
            raise ConfigurationError(f"{name!r} can't be the name of a parameter: it is no name of a Python variable.")
    lines = [f"{name} = {_literal(as_value(text))}" for name, text in dict(pairs).items()]
    return "\n".join(["# Parameters", *lines]) if lines else None


def as_value(text: str) -> Value:
    """The value that a word of the command line stands for, by papermill's rules: True, False, None and numbers are
    what they look like, all else is text."""
    match text:
        case "True" | "False":
            return text == "True"
        case "None":
            return None
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text


def _literal(value: Value) -> str:
    return f'float("{value}")' if isinstance(value, float) and repr(value) in ("inf", "-inf", "nan") else repr(value)
