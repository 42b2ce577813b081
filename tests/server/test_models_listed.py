"""Which models a server's endpoints offer, and what is said of an endpoint that is not configured as it should be."""

import json

from agent_kernel.testing import FakeOpenAI
from tests.server.client import Api


async def test_the_models_of_each_endpoint_are_listed_and_no_key(api: Api, model: FakeOpenAI) -> None:
    body = await api.get("models")
    assert (body["default"], body["default_reason"]) == ("fake", "AGENT_KERNEL_MODEL names it.")
    known = {"name": "fake", "tools": None, "images": None, "context_tokens": None, "context_is_learned": False}
    endpoint = {"name": "openai", "api": "chat", "models": [known], "left_out": 0, "error": "", "loading": False}
    assert body["endpoints"] == [endpoint]
    assert model.environment()["OPENAI_API_KEY"] not in json.dumps(body)
