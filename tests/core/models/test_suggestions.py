"""What a user reads where a model is not there, or can't do what a run needs: the models that are and can."""

import pytest

from agent_kernel.errors import ConfigurationError, ModelRefused, ModelUnavailable
from agent_kernel.models.base import ModelRequest
from agent_kernel.models.endpoints import Endpoint, configured
from agent_kernel.models.known import near
from agent_kernel.models.resolver import ModelResolver
from agent_kernel.models.service_faults import Asked, Fault, explain
from agent_kernel.testing import FakeOpenAI, VirtualClock
from agent_kernel.testing.wire.reply import failure
from tests.core.models.model_fixtures import collect

TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
REQUEST = ModelRequest(messages=({"role": "user", "content": "Hi"},), tools=(TOOL,))
LIST = {"/v1/models": {"data": [{"id": name} for name in ("qwen3:8b", "qwen3:32b", "gemma3:4b", "nomic-embed-text")]}}
NO_SUCH_MODEL = failure(404, "model 'qwen3' not found, try pulling it first")


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("qwen3", ["qwen3:32b", "qwen3:8b"]),
        ("Qwen3:8B", ["qwen3:8b", "qwen3:32b"]),
        ("gema3:4b", ["gemma3:4b"]),
        ("qwen3:8b", []),
        ("claude-sonnet-5-5", []),
        ("", ["gemma3:4b", "qwen3:32b", "qwen3:8b"]),
    ],
)
def test_names_that_are_near_one(wanted: str, found: list[str]) -> None:
    assert near(wanted, ["qwen3:8b", "qwen3:32b", "gemma3:4b"]) == found


async def test_an_unknown_model_names_those_that_are_near() -> None:
    async with FakeOpenAI([NO_SUCH_MODEL], pages=LIST) as server:
        resolver = ModelResolver(endpoints=[configured("lab", {"base_url": server.url})], clock=VirtualClock())
        with pytest.raises(ModelRefused) as caught:
            await collect(resolver.resolve("qwen3"), REQUEST)
        await resolver.aclose()
    assert "does not know the model 'qwen3' (404): model 'qwen3' not found, try pulling it first." in str(caught.value)
    assert "Near that: qwen3:32b, qwen3:8b. Name one with --model or AGENT_KERNEL_MODEL." in str(caught.value)


async def test_a_name_that_no_endpoint_lists_is_answered_with_those_that_were_heard_of() -> None:
    async with FakeOpenAI(pages=LIST) as server:
        endpoints = [configured(name, {"base_url": server.url, "models": ["x"]}) for name in ("lab", "cloud")]
        resolver = ModelResolver(endpoints=endpoints)
        with pytest.raises(ConfigurationError, match=r"Say which one serves it: lab/qwen3, cloud/qwen3\."):
            resolver.resolve("qwen3")
        await resolver.listed()
        with pytest.raises(ConfigurationError, match=r"Near that: cloud/qwen3:32b, cloud/qwen3:8b, lab/qwen3:32b"):
            resolver.resolve("qwen3")
        await resolver.aclose()


def test_a_hosted_service_that_cant_be_reached_asks_about_the_network() -> None:
    asked = Asked(Endpoint("openai", "https://api.openai.com/v1"), "gpt-6.1-sol")
    error = explain(Fault("connection", "no route"), asked, tries=4)
    assert isinstance(error, ModelUnavailable)
    assert str(error) == (
        "https://api.openai.com/v1 can't be reached after 4 tries: no route. Is this machine online, and may it reach "
        "that address? OPENAI_BASE_URL sets the address. `agent-kernel doctor` asks it, and says what is wrong."
    )
