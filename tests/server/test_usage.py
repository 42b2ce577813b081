"""What was spent, for whoever asks the server, over HTTP or in a cell; a budget in dollars."""

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from genai_prices.data_snapshot import DataSnapshot, set_custom_snapshot
from genai_prices.types import ClauseRegex, ModelInfo, ModelPrice, Provider
from traitlets import TraitError

from agent_kernel.testing import FakeOpenAI, say
from agent_kernel_server.app import AgentKernelServer
from tests.server.client import Api

pytestmark = pytest.mark.usefixtures("fresh")  # what was spent is never forgotten


@pytest.fixture
def paid() -> Iterator[None]:
    """The model's double, at this machine's address, wants money: a dollar for a million tokens."""
    price = ModelPrice(input_mtok=Decimal(1), output_mtok=Decimal(1))
    model = ModelInfo(id="any", match=ClauseRegex(""), prices=price)
    provider = Provider(id="double", name="Double", api_pattern=r"http://127\.0\.0\.1", models=[model])
    set_custom_snapshot(DataSnapshot([provider], from_auto_update=False))
    yield
    set_custom_snapshot(None)


@pytest.mark.usefixtures("paid")
async def test_a_paid_model_has_a_cost_by_day_model_and_conversation(api: Api, model: FakeOpenAI) -> None:
    model.add(say("Hi.", usage=(1_000, 100)), say("Ho.", usage=(2_000, 200)))
    conversation_id = await api.new_conversation()
    for _ in range(2):
        await api.start_run(conversation_id)
        await api.ended(conversation_id)
    first, second = (await api("GET", "conversations", conversation_id))[1]["runs"]
    assert (first["usage"]["cost"], second["usage"]["cost"]) == (0.0011, 0.0022)
    _, report = await api("GET", "usage", params={"days": "1"})
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    assert (report["days"], report["since"]) == (1, today)
    assert report["totals"]["cost"] == 0.0033
    assert [(one["day"], one["turns"]) for one in report["by_day"]] == [(today, 2)]
    [of_conversation] = report["by_conversation"]
    assert (of_conversation["conversation_id"], of_conversation["cost"]) == (conversation_id, 0.0033)
    assert (await api("DELETE", "conversations", conversation_id))[0] == 204
    _, report = await api("GET", "usage")
    assert (report["totals"]["cost"], report["by_conversation"]) == (0.0033, [])


@pytest.mark.parametrize("usd", [-1, float("nan"), "much"])
def test_a_site_is_told_of_a_budget_that_is_none(usd: Any) -> None:
    with pytest.raises(TraitError, match="default_budget: usd"):
        AgentKernelServer(default_budget={"usd": usd})


def test_a_site_may_set_a_budget_in_dollars() -> None:
    assert AgentKernelServer(default_budget={"usd": 2}).default_budget == {"usd": 2}
