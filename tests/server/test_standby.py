"""Until an agent is used for the first time, the server has nothing of it in memory; the first use waits for it."""

import asyncio
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.serverapp import ServerApp
from tornado import web

from agent_kernel.log.opening import open_to_write
from agent_kernel.log.tables import make_tables
from agent_kernel.testing import FakeOpenAI, say
from agent_kernel_server import standby
from agent_kernel_server.app import LOG_NAME, AgentKernelServer
from agent_kernel_server.notebooks.opened_pages import LOOK
from tests.server.client import Api, Fetch, Kernel, OpenChannel
from tests.waiting import until

ASK = "%load_ext agent_kernel\nget_ipython().run_cell_magic('agent', '', 'Say hello.')"


@pytest.fixture
def extension_traits() -> dict[str, Any]:
    return {"warm_up": True}


def write_notebook(path: Path, *sources: str) -> None:
    path.parent.mkdir(exist_ok=True)
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources]), path)


async def open_notebook(root: Path, fetch: Fetch, *sources: str) -> None:
    """Open a notebook with these cells as a page does."""
    write_notebook(root / "opened.ipynb", *sources)
    await fetch("api", "contents", "opened.ipynb", params={"type": "notebook", "content": "1"})


async def test_a_server_whose_user_runs_no_agent_never_loads_one(
    extension: AgentKernelServer, kernel: Kernel, api: Api, jp_fetch: Fetch, jp_root_dir: Path
) -> None:
    await open_notebook(jp_root_dir, jp_fetch, "import math\nmath.pi", "# agent")
    assert await kernel.run("6 * 7") is not None
    assert await api("GET", "runs", params={"state": "open", "limit": "0"}) == (200, [])
    assert extension.service is None
    assert extension.current_activity() is None


async def test_a_kernel_that_loads_the_extension_has_the_server_load_it_too(
    extension: AgentKernelServer, kernel: Kernel
) -> None:
    await kernel.run("%load_ext agent_kernel")
    await until(lambda: extension.service is not None)


async def test_the_first_prompt_is_answered_though_nothing_was_loaded(
    extension: AgentKernelServer, kernel: Kernel, api: Api, model: FakeOpenAI
) -> None:
    model.add(say("Hello."))
    await kernel.run(ASK)
    outputs = await kernel.run("import agent_kernel as ak\nprint(ak.last_run().wait(60).text)")
    assert "".join(one["content"]["text"] for one in outputs if one["msg_type"] == "stream") == "Hello.\n"
    assert extension.service is not None


@pytest.mark.parametrize("source", ["%load_ext agent_kernel", "%%agent\nWhat is here?", "import agent_kernel as ak"])
async def test_opening_a_notebook_with_a_prompt_loads_it_before_a_cell_is_run(
    extension: AgentKernelServer, jp_fetch: Fetch, jp_root_dir: Path, source: str
) -> None:
    await open_notebook(jp_root_dir, jp_fetch, "1 + 1", source)
    await until(lambda: extension.service is not None)


class Page(JupyterHandler):
    """Stands for JupyterLab's page of a notebook."""

    @web.authenticated
    def get(self) -> None:
        self.finish("<html></html>")


@pytest.fixture
def pages(extension: AgentKernelServer, jp_serverapp: ServerApp) -> None:
    base_url = jp_serverapp.web_app.settings["base_url"]
    jp_serverapp.web_app.add_handlers(".*$", [(f"{base_url}(?:doc/tree|lab/.*|notebooks)/.*", Page)])


@pytest.mark.parametrize(
    "place", [("doc", "tree"), ("lab", "tree"), ("lab", "workspaces", "w-1", "tree"), ("notebooks",)]
)
async def test_the_page_of_a_notebook_with_a_prompt_loads_it_before_the_browser_asks_for_the_notebook(
    extension: AgentKernelServer, pages: None, jp_fetch: Fetch, jp_root_dir: Path, place: tuple[str, ...]
) -> None:
    write_notebook(jp_root_dir / "my work" / "ä.ipynb", "%%agent\nWhat is here?")
    await jp_fetch(*place, "my work", "ä.ipynb", params={"reset": "1"})
    await until(lambda: extension.service is not None)


async def test_other_pages_load_nothing(
    extension: AgentKernelServer, pages: None, jp_fetch: Fetch, jp_root_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_notebook(jp_root_dir / "asks.ipynb", "%%agent\nWhat is here?")
    cells = [nbformat.v4.new_markdown_cell("%%agent"), nbformat.v4.new_code_cell("1")]
    notebook = nbformat.v4.new_notebook(cells=cells)
    nbformat.write(notebook, jp_root_dir / "plain.ipynb")
    (jp_root_dir / "broken.ipynb").write_text("%agent, and no JSON")
    for name in ("plain.ipynb", "broken.ipynb", "gone.ipynb", "asks.txt"):
        await jp_fetch("doc", "tree", name)
    await jp_fetch(
        "doc", "tree", "asks.ipynb", headers={"Authorization": "token wrong"}, follow_redirects=False, raise_error=False
    )
    await asyncio.gather(*(task for task in asyncio.all_tasks() if task.get_name() == LOOK))
    assert extension.service is None
    assert LOOK not in caplog.text


class TestWithoutWarmUp:
    @pytest.fixture
    def extension_traits(self) -> dict[str, Any]:
        return {"warm_up": False}

    async def test_opening_a_notebook_with_a_prompt_loads_nothing(
        self, extension: AgentKernelServer, jp_fetch: Fetch, jp_root_dir: Path, api: Api
    ) -> None:
        await open_notebook(jp_root_dir, jp_fetch, "%%agent\nWhat is here?")
        assert extension.service is None
        assert (await api("GET", "tools"))[0] == 200
        assert extension.service is not None


async def test_requests_that_come_together_at_first_are_all_answered(
    extension: AgentKernelServer, api: Api, client: OpenChannel
) -> None:
    answers = await asyncio.gather(*(api("GET", "tools") for _ in range(3)), api("POST", "conversations"))
    assert [status for status, _ in answers] == [200, 200, 200, 201]
    page = await client(answers[-1][1]["conversation_id"])
    assert (await page.next())["type"] == "session"


async def test_a_kernel_that_is_restarted_before_the_first_use_is_still_listened_to(
    extension: AgentKernelServer, kernel: Kernel, jp_serverapp: ServerApp
) -> None:
    await kernel.run("1")
    await jp_serverapp.kernel_manager.restart_kernel(kernel.kernel_id)
    await kernel.ready()  # or its answer to the next cell is not heard by the test
    async with asyncio.timeout(60):
        while extension.service is None:  # a subscription takes a moment, and what a kernel said before is not heard
            await kernel.run("%reload_ext agent_kernel")


async def test_what_keeps_the_service_from_loading_is_said_to_each_client(
    extension: AgentKernelServer, api: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(standby, "SERVICE_MODULES", ("agent_kernel_server.is_not_there",))
    for _ in range(2):
        status, body = await api("GET", "tools")
        assert status == 503
        assert "Agent Kernel can't be loaded: ModuleNotFoundError: No module named" in body["message"]
    assert "loading of Agent Kernel failed" in caplog.text
    monkeypatch.undo()
    assert (await api("GET", "tools"))[0] == 200


async def test_a_stranger_gets_no_answer_from_a_server_that_has_loaded_nothing(
    extension: AgentKernelServer, jp_fetch: Fetch, api: Api
) -> None:
    for path in (("runs",), ("tools",)):
        status, _ = await api("GET", *path, params={"state": "open"}, headers={"Authorization": "token wrong"})
        assert status == 403


def write_log(folder: Path, status: str) -> None:
    """A log with one run of this status."""
    sql, _ = open_to_write(folder / LOG_NAME)
    make_tables(sql)
    sql.execute("INSERT INTO conversations (number, conversation_id, created_at) VALUES (1, 'conv_a', '2026')")
    sql.execute("INSERT INTO tool_sets VALUES ('none', '[]')")
    row = "('run_a', 1, ?, '{}', '{}', 'none', '')"
    sql.execute(f"INSERT INTO runs (run_id, conversation, status, view, spec, tool_set, owner) VALUES {row}", (status,))
    sql.close()


class TestWithALog:
    @pytest.fixture
    def extension_traits(self, tmp_path: Path) -> dict[str, Any]:
        """The log of an earlier server, which has ended its runs."""
        write_log(tmp_path, "complete")
        return {"data_dir": str(tmp_path)}

    async def test_a_log_without_open_runs_is_left_alone(self, extension: AgentKernelServer, api: Api) -> None:
        assert await api("GET", "runs", params={"state": "open"}) == (200, [])
        assert extension.service is None

    async def test_a_run_that_another_server_began_meanwhile_is_listed(
        self, extension: AgentKernelServer, api: Api, tmp_path: Path
    ) -> None:
        sql, _ = open_to_write(tmp_path / LOG_NAME)
        sql.execute("UPDATE runs SET status = 'running'")
        sql.close()
        await api("GET", "runs", params={"state": "open"})
        assert extension.service is not None


class TestWhereAgentsHaveRunBefore:
    @pytest.fixture
    def extension_traits(self, tmp_path: Path) -> dict[str, Any]:
        write_log(tmp_path, "complete")
        return {"data_dir": str(tmp_path), "warm_up": True}

    async def test_the_server_is_warm_before_anybody_opens_a_notebook(self, extension: AgentKernelServer) -> None:
        await until(lambda: extension.service is not None and extension.service.warmed, seconds=60)


class TestWithAnOpenRun(TestWithALog):
    @pytest.fixture
    def extension_traits(self, tmp_path: Path) -> dict[str, Any]:
        write_log(tmp_path, "running")
        return {"data_dir": str(tmp_path)}

    async def test_a_log_without_open_runs_is_left_alone(self, extension: AgentKernelServer, api: Api) -> None:
        """Here it has one: it goes on without anybody who asks."""
        await until(lambda: extension.service is not None)


def test_an_odd_notebook_has_no_prompt() -> None:
    from agent_kernel_server.notebooks.page_handler import has_prompt

    odd: list[Any] = [
        *(None, [], 7, {"type": "notebook"}, {"type": "notebook", "content": {"cells": 7}}),
        {"type": "notebook", "content": {"cells": [7, {"cell_type": "code", "source": 7}]}},
        {"type": "notebook", "content": {"cells": [{"cell_type": "markdown", "source": "%%agent"}]}},
    ]
    assert not any(map(has_prompt, odd))
    lines = {"cell_type": "code", "source": ["# first\n", "%%agent\n", "Look."]}
    assert has_prompt({"type": "notebook", "content": {"cells": [lines]}})


async def test_a_stranger_loads_nothing_and_neither_does_a_browser_that_asks_first(
    extension: AgentKernelServer, jp_fetch: Fetch, api: Api
) -> None:
    no_token = {"Authorization": ""}
    for method, path in (("GET", "tools"), ("POST", "ai-sdk/chat"), ("GET", "conversations/c/events"), ("PUT", "x")):
        options = {"allow_nonstandard_methods": True, "headers": no_token}
        status, _ = await api(method, *path.split("/"), **options)
        assert status == 403
    asked = {"Origin": "http://localhost", "Access-Control-Request-Method": "POST", **no_token}
    answer = await jp_fetch("agent-kernel", "api", "ai-sdk", "chat", method="OPTIONS", headers=asked, raise_error=False)
    assert answer.code in (200, 204, 404)
    assert extension.service is None
