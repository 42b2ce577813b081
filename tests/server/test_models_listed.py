"""Which models a server's endpoints offer, and what is said of an endpoint that is not configured as it should be."""

import json
from typing import Any

import pytest

from agent_kernel.testing import FakeOpenAI, say
from tests.server.client import Api, Kernel


class TestAnEndpointWithAMistake:
    @pytest.fixture
    def extension_traits(self, model: FakeOpenAI) -> dict[str, Any]:
        return {"endpoints": {"lab": {"base_url": model.url, "api": "soap"}, "good": {"base_url": model.url}}}

    async def test_is_told_to_those_who_name_it_and_the_rest_works(self, api: Api, model: FakeOpenAI) -> None:
        status, answer = await api("POST", "conversations", body={"model": "lab/m"})
        assert (status, answer["field"]) == (400, "model")
        assert "'lab'" in answer["message"]
        assert "its api must be one of chat, responses, messages" in answer["message"]
        model.add(say("Here."))
        conversation_id = await api.new_conversation(model="good/m")
        await api.start_run(conversation_id)
        assert (await api.ended(conversation_id))["runs"][0]["status"] == "complete"

    async def test_is_listed_with_what_is_wrong_with_it_beside_the_others(self, api: Api) -> None:
        status, body = await api("GET", "models")
        assert status == 200
        views = {view["name"]: view for view in body["endpoints"]}
        assert "its api must be one of" in views["lab"]["error"]
        assert [model["name"] for model in views["good"]["models"]] == ["good/fake"]


async def test_the_models_of_each_endpoint_are_listed_and_no_key(api: Api, model: FakeOpenAI) -> None:
    status, body = await api("GET", "models")
    assert status == 200
    assert (body["default"], body["default_reason"]) == ("fake", "AGENT_KERNEL_MODEL names it.")
    (endpoint,) = body["endpoints"]
    assert endpoint == {
        "name": "openai",
        "api": "chat",
        "models": [{"name": "fake", "tools": None, "images": None, "context_tokens": None}],
        "left_out": 0,
        "error": "",
    }
    assert model.environment()["OPENAI_API_KEY"] not in json.dumps(body)


@pytest.mark.kernel
async def test_a_cell_lists_what_its_server_offers(kernel: Kernel) -> None:
    await kernel.run("%load_ext agent_kernel")
    text = await kernel.text("%agent models")
    assert "The default model is fake. AGENT_KERNEL_MODEL names it." in text
    assert "fake   ?      ?       ?" in text
