"""Which models a server's endpoints offer, and what is said of an endpoint that is not configured as it should be."""

import json

import pytest

from agent_kernel import doctor
from agent_kernel.testing import FakeOpenAI
from agent_kernel.testing.wire.reply import failure
from agent_kernel_server.mcp_tools.servers import McpServers
from tests.server.client import Api
from tests.server.serving import Server


async def test_the_models_of_each_endpoint_are_listed_and_no_key(api: Api, model: FakeOpenAI) -> None:
    body = await api.get("models")
    assert (body["default"], body["default_reason"]) == ("fake", "AGENT_KERNEL_MODEL names it.")
    known = {"name": "fake", "tools": None, "images": None, "context_tokens": None, "context_is_learned": False}
    endpoint = {"name": "openai", "api": "chat", "models": [known], "left_out": 0, "error": "", "loading": False}
    assert body["endpoints"] == [endpoint]
    assert model.environment()["OPENAI_API_KEY"] not in json.dumps(body)


@pytest.mark.usefixtures("fresh")
async def test_what_was_learned_from_a_refusal_is_listed_and_doctor_says_it(
    api: Api, model: FakeOpenAI, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    model.add(failure(400, "prompt is too long: 9000 tokens > 8192 maximum"))
    await api.ended(await api.begin())
    (listed,) = (await api.get("models"))["endpoints"][0]["models"]
    assert (listed["context_tokens"], listed["context_is_learned"]) == (8_192, True)
    server.app.write_server_info_file()
    (found,) = await doctor.of_running_servers()
    assert found.mark == "note"
    assert "takes the context of fake for 8,192 tokens: openai refused a longer request." in found.text
    monkeypatch.delattr(McpServers, "view")  # a server that can't say one thing still says the other
    assert await doctor.of_running_servers() == [found]
