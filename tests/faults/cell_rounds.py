"""Rounds in which the agent changes and runs cells, in a page that is slow, hangs and goes away, or in the file.

Meanwhile the page, the kernel or the server is struck, as in `server_rounds`.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from tests.faults import checks
from tests.faults.figures import Figures
from tests.faults.open_notebook import OpenNotebook, new_cell
from tests.faults.rounds import play_all
from tests.faults.server_rounds import StruckRound, play, strike_kernel, strike_server

Tool = Literal["edit_cell", "insert_cell", "run_cell"]
TOOLS: tuple[Tool, ...] = ("edit_cell", "insert_cell", "run_cell")
UNTOUCHED = ("Nothing was changed", "Nothing was done", "Nothing ran")


@dataclass(frozen=True)
class Planned:
    """A call of the plan. Each has a cell of its own, so that what it did is seen in that cell."""

    tool: Tool
    cell_id: str
    before: str
    source: str
    """After the call."""
    runs: bool
    token: str
    """What the cell writes into the counter when it runs."""

    def arguments(self) -> dict[str, Any]:
        match self.tool:
            case "edit_cell":
                return {"cell_id": self.cell_id, "source": self.source, "run": self.runs}
            case "insert_cell":
                return {"source": self.source, "run": self.runs}
            case "run_cell":
                return {"cell_id": self.cell_id}


@dataclass
class CellRound(StruckRound):
    planned: list[Planned] = field(default_factory=list)
    page: OpenNotebook | None = None

    @property
    def path(self) -> str:
        return f"round-{self.number}.ipynb"

    async def start_kernel(self) -> str:
        """A notebook with a kernel, which a page has open or not."""
        self.planned = [self._call(number) for number in range(self.random.randint(1, 4))]
        cells = [new_cell(one.cell_id, one.before) for one in self.planned if one.tool != "insert_cell"]
        whole = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
        await self._put(f"api/contents/{self.path}", "PUT", {"type": "notebook", "content": whole})
        body = {"path": self.path, "type": "notebook", "name": "", "kernel": {"name": "python3"}}
        kernel = str((await self._put("api/sessions", "POST", body))["kernel"]["id"])
        if self.random.random() < 0.8:
            self.page = OpenNotebook(self.server, self.path, kernel, self.random)
            await self.page.open()
        return kernel

    async def _put(self, path: str, method: str, body: Any) -> Any:
        status, answer = await self.server.ask(method, path, body)
        assert status < 300, answer
        return answer

    def _call(self, number: int) -> Planned:
        tool, token = self.random.choice(TOOLS), f"ran{number}"
        seconds = self.random.choice([0, 0.05, 0.3])
        source = (
            f"print({token!r}, file=open({str(self.counter)!r}, 'a'), flush=True)\n__import__('time').sleep({seconds})"
        )
        runs = tool == "run_cell" or self.random.random() < 0.5
        return Planned(tool, f"c{number}", source if tool == "run_cell" else f"{number}", source, runs, token)

    def plan(self) -> dict[str, Any]:
        """The notebook is read, then the calls are made, one or two at a time."""
        steps: list[Any] = [[("read_notebook", {})]]
        for one in self.planned:
            if len(steps) == 1 or self.random.random() < 0.7:
                steps.append([])
            steps[-1].append((one.tool, one.arguments()))
        return {"steps": steps, "pause": self.random.choice([0, 0.002])}

    def check_calls(self, calls: Iterable[Mapping[str, Any]]) -> None:
        ran = checks.counted(self.counter)
        document = self._document()
        for call in calls:
            if call["tool_name"] != "read_notebook":
                self._check(call, self._of(call), ran, document)
            elif call["state"] not in checks.FINAL:
                self.fault("dishonest_states", f"{call['tool_call_id']} is {call['state']}")

    def _of(self, call: Mapping[str, Any]) -> Planned:
        arguments = json.loads(call["tool_input"])
        found = [one for one in self.planned if one.tool == call["tool_name"] and one.arguments() == arguments]
        assert len(found) == 1, call
        return found[0]

    def _document(self) -> Counter[str]:
        """How many cells have each source, in the page or in the file."""
        path = self.server.directory / self.path
        saved = Counter("".join(cell["source"]) for cell in json.loads(path.read_text())["cells"])
        if self.page is not None:
            saved |= Counter(cell["source"] for cell in self.page.cells)
        return saved

    def _check(self, call: Mapping[str, Any], one: Planned, ran: Counter[str], document: Counter[str]) -> None:
        name, state, text = call["tool_call_id"], call["state"], f"{call['result']} {call['reason']}"
        changes = one.tool != "run_cell"
        there = document[one.source] if changes else 0
        applied = max(there, self.page.applied[one.source] if self.page is not None else 0) if changes else 0
        what = f"{name} ({one.tool}) is {state}, changed {applied} times, ran {ran[one.token]} times: {text[:200]}"
        if applied > 1 or ran[one.token] > 1:
            self.fault("calls_run_twice", what)
        if (applied or ran[one.token]) and (state in checks.DID_NOT_RUN or call["by"] is None):
            self.fault("ran_undecided", what)
        if ran[one.token] and not one.runs:
            self.fault("ran_undecided", what)
        missing = (changes and not applied) or (one.runs and not ran[one.token])
        untrue = state == "error" and any(word in text for word in UNTOUCHED) and (there or ran[one.token])
        if state not in checks.FINAL or (state == "success" and missing) or untrue:
            self.fault("dishonest_states", what)

    async def end(self) -> None:
        if self.page is not None:
            await self.page.close()
        await super().end()


async def strike(round_: CellRound) -> None:
    """The page goes away, the kernel or the server is killed, or nothing happens but what the page does by itself."""
    what = round_.random.choice(["page", "page", "kernel", "server", "nothing"])
    round_.name += f", {what}"
    if what == "page" and round_.page is not None:
        await round_.page.go_away()
    elif what == "kernel":
        await strike_kernel(round_)
    elif what == "server":
        await strike_server(round_)
    if what in ("kernel", "server") and round_.page is not None:
        round_.page.kernel_is_gone()


def run_cells(rounds: int, seed: int, first: int = 0) -> Figures:
    """Rounds in which cells are changed and run."""
    return asyncio.run(play_all(rounds, seed, first, CellRound, partial(play, strike)))
