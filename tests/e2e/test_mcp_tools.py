"""MCP in JupyterLab: tools of servers, with a question of one, and the card of a folder's servers."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from agent_kernel.testing import call, calls
from tests.e2e.conftest import OpenNotebook
from tests.e2e.lab import LabServer, wait_until
from tests.e2e.model import Gate, WrittenModel

PEER = str(Path(__file__).parents[1] / "server" / "mcp_peer.py")
LOAD = "%load_ext agent_kernel"


@pytest.fixture
def peer(lab: LabServer, tmp_path: Path) -> Iterator[None]:
    """A server of the user's own, whom the folder's file names too."""
    entry = {"command": sys.executable, "args": [PEER, "modern", str(tmp_path)]}
    files = [lab.home / "config" / "mcp.json", lab.root / ".mcp.json"]
    for name, file in zip(("peer", "ours"), files, strict=True):
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps({"mcpServers": {name: entry}}))
    yield
    for file in files:
        file.unlink()


def test_a_servers_tools_are_cards_with_pictures_progress_and_questions(
    lab: LabServer, peer: None, open_notebook: OpenNotebook, model: WrittenModel, end: Gate
) -> None:
    lab.api("GET", "agent-kernel/api/mcp-servers")  # starts it: on a busy machine that may take longer than a run waits
    asked = [call("peer__mixed", call_id="mixed"), call("peer__drop", call_id="drop", table="prices")]
    model.says(calls(*asked, call("peer__ask", call_id="ask")), end)
    notebook = open_notebook([LOAD, "%%agent\nUse the server.", "%agent tools"])
    notebook.run_through(1)
    page = notebook.page

    offer = page.locator("[aria-label='Tool call: start_mcp_servers']")
    expect(offer).to_contain_text("Start the MCP servers of this folder?")
    expect(offer).to_contain_text(PEER)
    expect(offer.get_by_role("button", name="Edit")).to_have_count(0)  # the yes is for the file as it is
    drop = page.locator("[data-tool-call-id=drop]")
    expect(drop).to_contain_text("prices")
    expect(drop).to_contain_text("May destroy something, says its server")
    for name in ("mixed", "ask"):
        page.locator(f"[data-tool-call-id={name}]").get_by_role("button", name="Approve", exact=True).click()
    expect(page.locator("[data-tool-call-id=mixed]")).to_contain_text("a memo")
    expect(page.locator("[data-tool-call-id=mixed] img")).to_be_visible()
    question = page.locator("[aria-label='Tool call: ask_user']")
    expect(question).to_contain_text("How large?")
    expect(page.locator("[data-guarded]")).to_have_count(0)
    question.get_by_role("textbox").fill("7")
    question.get_by_role("button", name="Send").click()
    expect(page.locator("[data-tool-call-id=ask]")).to_contain_text("size 7")
    drop.get_by_role("button", name="Deny", exact=True).click()
    drop.get_by_role("textbox", name="Reason").press("Enter")
    end.open()
    expect(notebook.record()).to_contain_text("There it is.")
    assert model.tool_results()[-1] == "size 7"

    [waiting] = lab.api("GET", "agent-kernel/api/approvals?state=awaiting_approval")  # its run is over
    assert waiting["tool_name"] == "start_mcp_servers"
    lab.api("POST", f"agent-kernel/api/approvals/{waiting['approval_id']}", {"approved": False})
    notebook.run(2)
    assert "peer (yours): ready" in notebook.text(2)


@pytest.fixture
def everything(lab: LabServer) -> Iterator[None]:
    """The reference server of npm, which npx installs."""
    args = ["-y", "@modelcontextprotocol/server-everything@2026.8.31"]
    file = lab.home / "config" / "mcp.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps({"mcpServers": {"everything": {"command": "npx", "args": args}}}))
    yield
    file.unlink()


@pytest.mark.soak
def test_the_reference_server_of_npm_is_used_as_any(
    lab: LabServer, everything: None, open_notebook: OpenNotebook, model: WrittenModel, end: Gate
) -> None:
    def ready() -> bool:
        [server] = lab.api("GET", "agent-kernel/api/mcp-servers")["servers"]
        return bool(server["state"] == "ready")

    wait_until(ready, "the server to be ready")
    echo, image = "everything__echo", "everything__get-tiny-image"
    model.says(calls(call(echo, call_id="echo", message="hello"), call(image, call_id="image")), end)
    notebook = open_notebook([LOAD, "%%agent\nUse the server."])
    notebook.run_through(1)
    cards = {name: notebook.page.locator(f"[data-tool-call-id={name}]") for name in ("echo", "image")}
    for card in cards.values():
        card.get_by_role("button", name="Approve", exact=True).click()
    expect(cards["echo"]).to_contain_text("Echo: hello")
    expect(cards["image"].locator("img")).to_be_visible()
    end.open()
    expect(notebook.record()).to_contain_text("There it is.")
    assert model.tool_results()[0] == "Echo: hello"
