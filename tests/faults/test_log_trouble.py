"""A log that takes nothing: a full disk, a read-only file, none any more. Nothing is done unwritten; all are told."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.errors import LogUnavailable
from agent_kernel.protocol.commands import Decision
from agent_kernel.protocol.events import CompleteEvent, ErrorEvent
from agent_kernel.runtime.runs import lifecycle
from agent_kernel.testing import FakeOpenAI, ScriptedModel, call, say
from tests.core.runtime.runtime_fixtures import FunctionExecutor, Stage, stage
from tests.faults import checks
from tests.faults.planned_model import PlannedModel
from tests.faults.server import Server


async def test_a_run_whose_outcome_cannot_be_written_ends_and_the_page_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle, "_FIRST_PAUSE", 0.02)
    stages: list[Stage] = []

    async def fill_the_disk(call: Any, emit: Any) -> str:
        await stages[0].set_read_only(True)
        return "ran"

    with ScriptedModel([call("run_python", code="1")]) as model:
        one = await stage(model, executor=FunctionExecutor(fill_the_disk))
        stages.append(one)
        handle = await one.start(policy="allow")
        result = await handle.wait()
        assert result.run.status == "error"
        assert result.run.error is not None
        assert "can't be written" in result.run.error.message
        [told] = (await one.until(lambda: [e for e in one.of(ErrorEvent) if e.run_id is None]))[:1]
        assert "The run is stopped" in told.message
        await one.set_read_only(False)
        await one.until(lambda: one.of(CompleteEvent))
        view = await one.conversation.view()
        assert [c.state for c in view.tool_calls] == ["unknown"]
        assert [run.status for run in view.runs] == ["error"]
        assert len(model.requests) == 1, "the log knows of no outcome"
        await one.close()


async def test_a_run_whose_log_is_removed_while_its_call_runs_ends_and_runs_nothing_more(tmp_path: Path) -> None:
    log = tmp_path / "log.sqlite"
    with ScriptedModel([call("run_python", code="1")]) as model:
        one = await stage(model, log, FunctionExecutor(lambda call, emit: log.unlink()))
        result = await (await one.start(policy="allow")).wait()
        assert result.run.status == "error"
        assert result.run.error is not None
        assert f"{log} was removed" in result.run.error.message
        [told] = await one.until(lambda: [e for e in one.of(ErrorEvent) if e.run_id is None])
        assert "The run is stopped" in told.message
        assert (len(one.executor.ran), len(model.requests)) == (1, 1)
        with pytest.raises(LogUnavailable, match="a new log starts"):
            await one.start()
        await one.close()


@contextmanager
def full_disk(server: Server) -> Iterator[None]:
    """The server's process can make no file larger, as on a full disk."""
    assert server.process is not None
    sizes = [path.stat().st_size for path in server.log_path.parent.iterdir()]
    before = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (min(sizes), before[1]))
    yield
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, before)


@pytest.mark.slow
@pytest.mark.kernel
async def test_on_a_full_disk_the_server_stays_up_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    with FakeOpenAI([PlannedModel()], repeat=True) as model:
        async with Server(tmp_path / "server", model.environment()) as server:
            conversation, [waiting] = await server.waiting(tmp_path / "counter")
            async with server.client(conversation) as client:
                await client.until("session")
                with full_disk(server):
                    status, body = await server.decide(waiting["approval_id"])
                    assert status == 503
                    assert "can't be written" in body["message"]
                    await client.send(type="approval_response", approval_id=waiting["approval_id"], approved=True)
                    refused = await client.until("error")
                    assert "can't be written" in refused["message"]
                    assert (await server.ask("POST", f"agent-kernel/api/conversations/{conversation}/runs",
                                             {"content": "More."}))[0] == 503  # fmt: skip
                    assert (await server.ask("GET", "api/status"))[0] == 200
                    assert checks.counted(tmp_path / "counter") == {}
                assert (await server.decide(waiting["approval_id"]))[0] == 200
                view = await server.ended(conversation)
            assert [call["state"] for call in view["tool_calls"]] == ["success"]
            assert list(checks.counted(tmp_path / "counter").values()) == [1]


@pytest.mark.slow
async def test_without_a_usable_log_the_server_starts_and_says_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "server").mkdir()
    (tmp_path / "server" / "log").write_text("no directory")
    async with Server(tmp_path / "server", {}) as server:
        status, body = await server.ask("GET", "agent-kernel/api/conversations")
        assert status == 503
        assert "can't be opened" in body["message"]
        assert (await server.ask("GET", "api/status"))[0] == 200


async def test_an_approval_that_cannot_be_written_runs_nothing_and_can_be_given_again() -> None:
    with ScriptedModel([call("run_python", code="1"), say("Done.")]) as model:
        one = await stage(model)
        handle = await one.start()
        [request] = await one.requests()
        await one.set_read_only(True)
        with pytest.raises(LogUnavailable, match="can't be written"):
            await one.conversation.route_decision(request.approval_id, Decision(approved=True))
        assert one.executor.ran == []
        await one.set_read_only(False)
        await one.conversation.route_decision(request.approval_id, Decision(approved=True))
        assert (await handle.wait()).run.status == "complete"
        assert len(one.executor.ran) == 1
        await one.close()
