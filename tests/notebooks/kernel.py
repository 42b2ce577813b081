"""A real kernel, driven as a notebook and as the server drive one."""

import asyncio
import queue
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

from agent_kernel.execution.kernel_executor import outcome_of
from agent_kernel.execution.output_reader import OutputReader
from agent_kernel.protocol.calls import ApprovedCall
from agent_kernel.protocol.kernel import CALL_KEY, REQUEST_TYPE, CallEnd, call_code, execute_request
from agent_kernel.protocol.views import OutputView
from agent_kernel.tools.arguments import canonical, digest
from tests.core.record.record_examples import a_call, a_run

T = TypeVar("T")
SECONDS = 55.0
"""Longest wait for anything that has to come: what sleeps in these tests until it is stopped sleeps for a minute."""


FORGET = """\
import atexit, os, sys, threading
from agent_kernel.notebook.execution.backups import backups
from agent_kernel.notebook.hosts import discovery
from agent_kernel.notebook.kernel.state import kernel_state
state = kernel_state()
for run in reversed(state.open_runs()):
    run.cancel("script")
for run in state.open_runs():
    run.acknowledged.set()
    if run.host.blocks:
        run.wait_done(20)
    else:
        run.fail("The test is over.")  # its server is the test
for thread in threading.enumerate():
    if thread.name == "agent-kernel-announce":
        thread.join(20)
if discovery._embedded.cache_info().currsize:
    host = discovery._embedded(state)
    host._close()
    atexit.unregister(host._close)
    discovery._embedded.cache_clear()
state.calls._seen.clear(); state.calls._entries.clear(); state._runs.clear(); state._tools.clear()
state.ran._ended.clear(); state.cells._named.clear()
backups._kept.clear()
os.chdir({folder!r})
os.environ.clear()
os.environ.update(sys.environ_at_start)
get_ipython().extension_manager.unload_extension("agent_kernel")
get_ipython().reset(new_session=True)
get_ipython().user_ns["__spec__"] = None  # as a kernel that starts has one: multiprocessing looks
"""
"""What a kernel forgets for the next test: its runtime, runs and their undo, folder, environment, variables, numbers of
cells."""


@dataclass
class Cell:
    """What running one cell gave."""

    reply: dict[str, Any]
    outputs: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    busy: bool = False
    idle: bool = False

    def streams(self) -> str:
        return "".join(content["text"] for kind, content in self.outputs if kind == "stream")

    def shown(self, mime: str = "text/plain") -> list[Any]:
        return [content["data"].get(mime) for _, content in self.outputs if "data" in content]

    @property
    def ok(self) -> bool:
        """Whether a cell has not failed, or a call was taken."""
        return self.reply.get("status") == "ok" or self.reply.get("ok") is True

    @property
    def value(self) -> Any:
        """The Python value that a cell's last expression printed."""
        return [content["data"]["text/plain"] for kind, content in self.outputs if kind == "execute_result"][-1]


class TestKernel:
    """One kernel. `run` is the user's cell; `request` and `take` are what the server does."""

    __test__ = False

    def __init__(self, env: dict[str, str], python: str | None = None) -> None:
        """`python`: another one than this, for another version of ipykernel."""
        self.manager = KernelManager(kernel_name="python3")
        if python is not None:
            assert self.manager.kernel_spec is not None
            self.manager.kernel_spec.argv[0] = python
        # With it ipykernel does not read what child processes print.
        self.manager.start_kernel(env={name: value for name, value in env.items() if name != "PYTEST_CURRENT_TEST"})
        self.client: BlockingKernelClient = self.manager.client()
        self.client.start_channels(stdin=False)
        self.client.wait_for_ready(timeout=SECONDS)
        self.events: list[dict[str, Any]] = []
        self.listeners: list[Callable[[dict[str, Any]], None]] = []
        """Told of all that is published, whoever waits for what."""
        self._constants: list[tuple[str, str, str]] = []
        """The modules, names and former values, in Python's words, of what a test has set."""
        self._cells: dict[str, Cell] = {}
        self._calls: dict[str, dict[str, Any]] = {}
        self._messages: dict[str, str] = {}
        """The ids of the messages that run calls, by call."""
        self._published: dict[str, list[tuple[str, dict[str, Any]]]] = {}
        self.run("import os, sys; sys.environ_at_start = dict(os.environ)", silent=True)

    def close(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)
        self.manager.cleanup_resources()

    def forget(self) -> None:
        """Be for the next test as if no test had been before it, but for what was imported."""
        self.listeners.clear()
        for module, name, value in self._constants:
            self.run(f"__import__('sys').modules[{module!r}].{name} = {value}", silent=True)
        self._constants.clear()
        cell = self.run(FORGET.format(folder=str(Path.cwd())), silent=True)
        assert cell.reply["status"] == "ok", cell.reply
        for kept in (self.events, self._calls, self._messages, self._published):
            kept.clear()

    def set_constant(self, module: str, name: str, value: object) -> None:
        """Set a constant of a module, until the kernel forgets this test."""
        found = self.value(f"__import__({module!r}, fromlist=['']).{name}")
        self._constants.append((module, name, found))
        self.run(f"__import__('sys').modules[{module!r}].{name} = {value!r}")

    def send(self, code: str, *, silent: bool = False, allow_stdin: bool = False, stored: bool = True) -> str:
        """`stored` is off for a runner that keeps no history, such as nbval."""
        message_id: str = self.client.execute(
            code, silent=silent, store_history=stored and not silent, allow_stdin=allow_stdin, stop_on_error=not silent
        )
        self._cells[message_id] = Cell({})
        return message_id

    def post(
        self, message_type: str, metadata: dict[str, Any] | None = None, subshell: str | None = None, **content: Any
    ) -> str:
        """Send something that is no cell on the channel of the cells."""
        message = self.client.session.msg(message_type, content, metadata=metadata)
        if subshell is not None:
            message["header"]["subshell_id"] = subshell
        self.client.shell_channel.send(message)
        message_id: str = message["header"]["msg_id"]
        self._cells[message_id] = Cell({})
        return message_id

    def send_cell(
        self, cell_id: str, code: str, *, deleted: Sequence[str] = (), allow_stdin: bool = False, **more: Any
    ) -> str:
        """Run a cell as JupyterLab does, which says which cell it is and which were deleted before.

        `more` is added to the metadata.
        """
        content: dict[str, Any] = {"code": code, "silent": False, "store_history": True, "user_expressions": {}}
        metadata = {"cellId": cell_id, "deletedCells": list(deleted), **more}
        return self.post("execute_request", metadata, **content, allow_stdin=allow_stdin, stop_on_error=True)

    def complete(self, code: str) -> list[str]:
        """What the tab key makes of this."""
        reply = self.result(self.post("complete_request", code=code, cursor_pos=len(code))).reply
        return [code[: reply["cursor_start"]] + match for match in reply["matches"]]

    def run_in_subshell(self, code: str) -> Cell:
        content: dict[str, Any] = {"silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False}
        return self.result(self.post("execute_request", subshell=self.subshell(), code=code, **content))

    def run(self, code: str, **options: bool) -> Cell:
        return self.result(self.send(code, **options))

    def value(self, code: str) -> Any:
        return self.run(code).value

    def result(self, message_id: str) -> Cell:
        """Wait for a cell's reply and for all of its outputs."""
        cell = self._cells[message_id]
        self.wait(lambda: cell.reply and cell.idle, lambda: f"the cell's end; it showed {cell.outputs}")
        return cell

    def printed(self, message_id: str, text: str) -> None:
        """Wait until a cell that goes on has printed this."""
        self.wait(lambda: text in self._cells[message_id].streams())

    def begun(self, message_id: str) -> None:
        """Wait until the main thread has taken this cell up."""
        self.wait(lambda: self._cells[message_id].busy)

    def wait(self, look: Callable[[], T], what: Callable[[], str] = lambda: "something") -> T:
        """Read what comes until `look` returns something true, and return that."""
        deadline = time.monotonic() + SECONDS
        while not (seen := look()):
            assert time.monotonic() < deadline, f"waited for {what()}"
            self.pump()
        return seen

    def pump(self) -> None:
        """Read what has come from the kernel."""
        try:
            while True:
                self.published(self.client.get_iopub_msg(timeout=0.02))
        except queue.Empty:
            pass
        while self.client.shell_channel.msg_ready():
            reply = self.client.get_shell_msg(timeout=0)
            cell = self._cells.get(reply["parent_header"].get("msg_id"))
            if cell is not None:
                cell.reply = reply["content"]

    def published(self, message: dict[str, Any]) -> None:
        """Something that the kernel has sent to all who listen."""
        for listener in self.listeners:
            listener(message)
        kind, content = message["msg_type"], message["content"]
        if kind == "agent_kernel_event":
            self.events.append(content)
            return
        parent = message["parent_header"].get("msg_id", "")
        if parent in self._messages.values():
            self._published.setdefault(parent, []).append((kind, content))
        cell = self._cells.get(parent)
        if cell is None:
            return
        if kind in ("stream", "display_data", "execute_result", "error", "update_display_data"):
            cell.outputs.append((kind, content))
        cell.busy = cell.busy or content.get("execution_state") == "busy"
        cell.idle = cell.idle or content.get("execution_state") == "idle"

    def event(self, kind: str) -> dict[str, Any]:
        """Wait for an event of this kind that the kernel sends to its server."""
        return self.wait(
            lambda: next((event for event in self.events if event["event"] == kind), {}),
            lambda: f"an event {kind!r} among {self.events}",
        )

    def announced(self, count: int = 1) -> list[str]:
        """So many runs, each of which may be announced again: a thread does it, which the cell's end does not wait
        for."""

        def look() -> list[str]:
            found = list(dict.fromkeys(event["run_id"] for event in self.events if event["event"] == "announce"))
            return found if len(found) >= count else []

        return self.wait(look)

    def declared(self, run_id: str | None = None) -> dict[str, Any]:
        """What a run is, the first without an id."""
        declaration: dict[str, Any] = self.request("declare", run_id=run_id or self.announced()[0])["declaration"]
        return declaration

    def finish(self, declared: dict[str, Any], *shown: dict[str, Any], cleared: bool = False, **changes: Any) -> None:
        """Tell the end of a run, with a call that has shown these bundles."""
        run = a_run(**{key: declared[key] for key in ("run_id", "conversation_id", "prompt")}, **changes)
        outputs = [OutputView(kind="display", data=data) for data in shown]
        calls = [a_call(run_id=run.run_id, outputs=outputs).model_dump(mode="json")] if shown else []
        result = {"run": run.model_dump(mode="json"), "text": "fine", "messages": [], "tool_calls": calls}
        answer = self.request("finish", result=result | {"cleared": cleared})
        assert answer["ok"], answer

    def request(self, op: str, **fields: Any) -> dict[str, Any]:
        """Ask the kernel's executor over the control channel."""
        return self.control(REQUEST_TYPE, {"op": op, **fields})

    def control(self, message_type: str, content: dict[str, Any]) -> dict[str, Any]:
        message = self.client.session.msg(message_type, content)
        self.client.control_channel.send(message)
        while True:
            reply = self.client.get_control_msg(timeout=SECONDS)
            if reply["parent_header"].get("msg_id") == message["header"]["msg_id"]:
                answer: dict[str, Any] = reply["content"]
                return answer

    def subshell(self) -> str | None:
        """A new subshell's id; `None` where the kernel has none. Such a kernel would never answer the request."""
        features = self.control("kernel_info_request", {}).get("supported_features", [])
        if "kernel subshells" not in features:
            return None
        subshell_id: str = self.control("create_subshell_request", {})["subshell_id"]
        return subshell_id

    def approve(self, call_id: str, tool_name: str = "run_python", **arguments: Any) -> None:
        """Make a call that can be deposited and taken."""
        text = canonical(arguments)
        self._calls[call_id] = asdict(ApprovedCall(call_id, "call_0", tool_name, text, digest(text)))

    def deposit(self, call_id: str, tool_name: str = "run_python", **arguments: Any) -> None:
        """Offer an approved call to a cell that waits."""
        self.approve(call_id, tool_name, **arguments)
        answer = self.request("call", call=self._calls[call_id], message_id=self._message_of(call_id))
        assert answer["ok"], answer

    def _message_of(self, call_id: str) -> str:
        return self._messages.setdefault(call_id, f"{self.client.session.session}_{call_id.replace(' ', '-')}")

    def take(self, call_id: str) -> str:
        """Have the main thread run an approved call."""
        code = call_code(call_id)
        metadata = {CALL_KEY: {"op": "call", "call": self._calls[call_id]}}
        message = self.client.session.msg("execute_request", execute_request(code), metadata=metadata)
        message_id = message["header"]["msg_id"] = self._message_of(call_id)
        self._cells[message_id] = Cell({})
        self.client.shell_channel.send(message)
        return message_id

    def collect(self, call_id: str) -> dict[str, Any]:
        """How far a call is, with the outputs and the outcome that the server makes of what the kernel has sent."""
        found = self.request("collect", approval_id=call_id)
        self.pump()
        return {"state": found["state"], **asyncio.run(self._told(call_id, found["end"]))}

    async def _told(self, call_id: str, end: dict[str, Any] | None) -> dict[str, Any]:
        outputs: list[Any] = []
        reader = OutputReader(outputs.append)
        for kind, content in self._published.get(self._messages.get(call_id, ""), []):
            reader.read(kind, content)
        outcome = await outcome_of(CallEnd.model_validate(end), reader, "run_python") if end is not None else None
        await reader.end("")
        return {
            "outputs": [output.model_dump() for output in outputs],
            "outcome": asdict(outcome) if outcome is not None else None,
        }

    def until(self, call_id: str, state: str) -> dict[str, Any]:
        def look() -> dict[str, Any]:
            found = self.collect(call_id)
            return found if found["state"] == state else {}

        return self.wait(look, lambda: f"{call_id} to be {state}")

    def call(self, call_id: str, code: str) -> dict[str, Any]:
        """Run Python as an approved call, as the server does between the user's cells."""
        self.approve(call_id, code=code)
        reply = self.result(self.take(call_id))
        assert reply.ok, reply
        return self.until(call_id, "done")
