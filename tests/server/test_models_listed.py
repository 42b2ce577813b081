"""Which models a server's endpoints offer, and what is said of an endpoint that is not configured as it should be."""

from typing import Any

import pytest

from agent_kernel.testing import FakeOpenAI, say
from tests.server.client import Api


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
