"""The pytest plugin: `pytest --nbval notebooks/` plays recordings and compares what notebooks show.

nbval runs the cells; its items are the only ones that are touched here. What costs time to import is imported with the
first of them, because pytest loads this module in every project of its environment.
"""

import os
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

import pytest

if TYPE_CHECKING:
    from nbval.plugin import IPyNbCell as NotebookCell  # type: ignore[import-untyped]  # it has no types

REPLAY, APPROVE = "AGENT_KERNEL_REPLAY", "AGENT_KERNEL_APPROVE"
_OPTIONS = ((REPLAY, "agent_replay", "strict"), (APPROVE, "agent_approve", "recorded"))
"""The variables for the kernels, the options that set them, and the defaults."""


_SAVED_TOO_EARLY = (
    "{cell.path.name} was saved while the run of this cell went on, so there is no record to compare with. Run the "
    "notebook to its end, and save it."
)


class RecordingChanged(pytest.PytestWarning):
    """A recording no longer fits, and was played all the same."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("agent-kernel", "agents in notebooks (with --nbval)")
    group.addoption(
        "--agent-replay",
        choices=("strict", "warn", "record"),
        help="What agents do with recordings: strict stops a run whose recording no longer fits, warn says so and goes "
        f"on, record asks the model and records again. Default: ${REPLAY}, else strict.",
    )
    group.addoption(
        "--agent-approve",
        choices=("none", "recorded", "all"),
        help="Who answers agents' calls that need approval: none denies them, recorded gives the recorded decisions, "
        f"all approves each. Default: ${APPROVE}, else recorded.",
    )


def pytest_report_header(config: pytest.Config) -> list[str]:
    if not (config.getoption("nbval", False) or config.getoption("nbval_lax", False)):
        return []
    chosen = _chosen(config)
    return [f"agent-kernel: recordings {chosen[REPLAY]}, approvals {chosen[APPROVE]}"]


def pytest_itemcollected(item: pytest.Item) -> None:
    if _is_cell(item):
        _compare_what_is_shown(item)
        _put_the_runs_error_first(item)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None]:
    """Keep a notebook's cells together and in their order, whatever other plugins did to it."""
    yield
    if any(map(_is_cell, items)):
        items[:] = _in_order(items)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None]:
    """A notebook's kernel is started by nbval with the setup of its first cell."""
    if not _is_cell(item):
        return (yield)
    with pytest.MonkeyPatch.context() as environment:
        for name, value in _chosen(item.config).items():
            environment.setenv(name, value)
        return (yield)


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """The cells of a notebook share a kernel, so they go to one process; other tests are spread as before."""
    wanted = config.getoption("nbval", False) or config.getoption("nbval_lax", False)
    if not wanted or config.getoption("dist") not in ("load", "loadgroup", "worksteal"):
        return None
    from xdist.scheduler import LoadGroupScheduling

    class NotebookScheduling(LoadGroupScheduling):  # type: ignore[misc]  # xdist has no types
        def _split_scope(self, nodeid: str) -> str:
            file, _, _ = nodeid.partition("::")
            return file if file.endswith(".ipynb") else str(super()._split_scope(nodeid))

    return NotebookScheduling(config, log)


def _is_cell(item: object) -> "TypeGuard[NotebookCell]":
    nbval = sys.modules.get("nbval.plugin")
    return nbval is not None and isinstance(item, nbval.IPyNbCell)


def _in_order(items: Sequence[pytest.Item]) -> Iterator[pytest.Item]:
    """The items, with all cells of a notebook at the place of the first that comes."""
    cells: dict[Path, list[tuple[int, pytest.Item]]] = {}
    for item in items:
        if (number := _cell_number(item)) is not None:
            cells.setdefault(item.path, []).append((number, item))
    for item in items:
        if _cell_number(item) is None:
            yield item
        else:
            yield from (cell for _, cell in sorted(cells.pop(item.path, []), key=itemgetter(0)))


def _cell_number(item: object) -> int | None:
    return item.cell_num if _is_cell(item) else None


def _chosen(config: pytest.Config) -> dict[str, str]:
    return {
        variable: config.getoption(option) or os.environ.get(variable) or default
        for variable, option, default in _OPTIONS
    }


def _compare_what_is_shown(cell: "NotebookCell") -> None:
    compare_outputs: Callable[..., bool] = cell.compare_outputs

    def compare(
        now: list[dict[str, Any]], saved: list[dict[str, Any]], skip_compare: Sequence[str] | None = None
    ) -> bool:
        from agent_kernel.testing.notebook_outputs import read_outputs

        of_now, of_saved = read_outputs(now), read_outputs(saved)
        for change in of_now.changes:
            cell.warn(RecordingChanged(f"{cell.path.name}, {cell.name}: {change}"))
        if _chosen(cell.config)[REPLAY] == "record" and of_now.has_record:
            return True  # the answers are new, and the notebook has the old ones
        same = compare_outputs(of_now.rest, of_saved.rest, skip_compare)
        problems = [_SAVED_TOO_EARLY.format(cell=cell)] if of_saved.of_open_run else []
        problems += _picture_problems(of_saved.pictures, of_now.pictures)
        cell.comparison_traceback[:0] = problems
        return same and not problems

    cell.compare_outputs = compare


def _picture_problems(saved: Sequence[bytes], now: Sequence[bytes]) -> Iterator[str]:
    from agent_kernel.models.recordings.pictures import picture_difference

    if len(saved) != len(now):
        yield f"The saved output has {len(saved)} pictures, this one has {len(now)}."
    for number, (before, after) in enumerate(zip(saved, now, strict=False), start=1):
        if says := picture_difference(before, after):
            yield f"Picture {number} is not the saved one. {says}"


def _put_the_runs_error_first(cell: "NotebookCell") -> None:
    """A run that failed, because its recording no longer fits or else, explains all that nbval says after it."""
    repr_failure: Callable[..., Any] = cell.repr_failure

    def explained(excinfo: pytest.ExceptionInfo[BaseException]) -> Any:
        from agent_kernel.testing.notebook_outputs import read_outputs

        nbvals = repr_failure(excinfo)
        errors = read_outputs(cell.test_outputs or []).errors
        if not errors:
            return nbvals
        return "\n\n".join([f"The agent's run in {cell.name} of {cell.path.name} failed:", *errors, str(nbvals)])

    cell.repr_failure = explained
