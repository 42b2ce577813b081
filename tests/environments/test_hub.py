"""A JupyterHub with its proxy: the agent works in its user's server, and no other user sees or decides anything."""

import json
import urllib.error
from pathlib import Path
from typing import Any

import pytest
import websocket

from agent_kernel.testing import call, say
from tests.e2e.model import WrittenModel
from tests.environments.cells import Cells, connect
from tests.environments.hub import Hub, UserServer

pytestmark = [pytest.mark.kernel, pytest.mark.soak]


def refused(server: UserServer, method: str, path: str, body: Any = None) -> int:
    """The status with which a request is refused."""
    with pytest.raises(urllib.error.HTTPError) as refusal:
        server.api(method, f"agent-kernel/api/{path}", body)
    refusal.value.close()
    return refusal.value.code


def open_channel(server: UserServer, conversation_id: str) -> websocket.WebSocket:
    return connect(server, f"agent-kernel/api/conversations/{conversation_id}/channel")


def test_the_agent_is_its_users_own_behind_the_hubs_proxy(model: WrittenModel, tmp_path: Path) -> None:
    model.says(call("run_python", code="product = 6 * 7\nprint('the product is', product)"), say("It is 42."))
    with Hub(tmp_path, model.server.environment()) as hub:
        server = hub.start_server("ada")
        stranger = UserServer(server.url, hub.token_of("bob"), server.root)
        cells = Cells.of_notebook(server, "analysis.ipynb")
        cells.run("%load_ext agent_kernel")
        waiting = cells.ask("What is six times seven?")
        conversation_id = waiting["conversation_id"]

        assert refused(stranger, "GET", "approvals") == 403
        assert refused(stranger, "GET", f"conversations/{conversation_id}") == 403
        assert refused(stranger, "POST", f"approvals/{waiting['approval_id']}", {"approved": True}) == 403
        with pytest.raises(websocket.WebSocketBadStatusException) as refusal:
            open_channel(stranger, conversation_id)
        assert refusal.value.status_code == 403
        assert cells.call(conversation_id, "awaiting_approval")

        cells.approve(waiting)
        assert "the product is 42" in cells.call(conversation_id, "success")["result"]
        assert cells.run_ended(conversation_id)["status"] == "complete"
        decided = first_event(server, conversation_id, "approval_response")
        assert (decided["by"], decided["decided_by"]) == ("user", "ada")
        cells.close()


def first_event(server: UserServer, conversation_id: str, kind: str) -> dict[str, Any]:
    """The first event of this kind in the conversation's log, over the Hub's proxy."""
    channel = open_channel(server, conversation_id)
    channel.send('{"type": "resume", "last_seq": 0}')
    try:
        while True:
            event: dict[str, Any] = json.loads(channel.recv())
            if event["type"] == kind:
                return event
    finally:
        channel.close()
