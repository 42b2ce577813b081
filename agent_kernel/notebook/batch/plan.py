"""Makes jobs of the options of `agent-kernel run`. What is wrong with them is said before anything runs."""

import argparse
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from agent_kernel.approvals.unattended import VARIABLE, approval_mode
from agent_kernel.errors import ConfigurationError
from agent_kernel.notebook.batch.job import Job
from agent_kernel.notebook.batch.parameters import parameters_cell
from agent_kernel.notebook.notebook_files import fault_of


def plan(options: argparse.Namespace, environ: Mapping[str, str]) -> list[Job]:
    """One job for each notebook. Raises `ConfigurationError`, which names every file that is no notebook."""
    notebooks: list[Path] = options.notebooks
    faults = [fault for fault in map(fault_of, notebooks) if fault]
    if faults:
        raise ConfigurationError("\n".join(faults))
    names = _names(notebooks)
    return [
        Job(
            notebook=notebook,
            output=_output(options.output, notebook, name, alone=len(notebooks) == 1),
            log=options.logs / name.with_suffix(".log") if options.logs is not None else None,
            parameters=parameters_cell(options.parameters),
            environ={**environ, VARIABLE: options.approve or approval_mode(environ)},
            timeout=options.timeout,
            allow_errors=options.allow_errors,
        )
        for notebook, name in zip(notebooks, names, strict=True)
    ]


def _names(notebooks: Sequence[Path]) -> list[Path]:
    """The notebooks' paths below the folder that they have in common, so that equal names stay apart. Raises
    `ConfigurationError` for a notebook that is given twice."""
    resolved = [notebook.resolve() for notebook in notebooks]
    twice = [str(path) for path, times in Counter(resolved).items() if times > 1]
    if twice:
        raise ConfigurationError(f"Given twice: {', '.join(twice)}. Two kernels would write the same file.")
    common = Path(os.path.commonpath([path.parent for path in resolved]))
    return [path.relative_to(common) for path in resolved]


def _output(wanted: Path | None, notebook: Path, name: Path, *, alone: bool) -> Path:
    if wanted is None:
        return notebook
    return wanted if alone and wanted.suffix == ".ipynb" else wanted / name
