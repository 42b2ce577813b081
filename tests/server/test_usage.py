"""What was spent, for whoever asks the server."""

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from genai_prices.data_snapshot import DataSnapshot, set_custom_snapshot
from genai_prices.types import ClauseRegex, ModelInfo, ModelPrice, Provider

from agent_kernel.testing import FakeOpenAI, say
from tests.server.client import Api


@pytest.fixture
def paid() -> Iterator[None]:
    """The model's double, at this machine's address, wants money: a dollar for a million tokens."""
    price = ModelPrice(input_mtok=Decimal(1), output_mtok=Decimal(1))
    model = ModelInfo(id="any", match=ClauseRegex(""), prices=price)
    provider = Provider(id="double", name="Double", api_pattern=r"http://127\.0\.0\.1", models=[model])
    set_custom_snapshot(DataSnapshot([provider], from_auto_update=False))
    yield
    set_custom_snapshot(None)


@pytest.mark.usefixtures("paid", "fresh")  # what was spent is never forgotten
async def test_a_paid_model_has_a_cost_by_day_model_and_conversation(api: Api, model: FakeOpenAI) -> None:
    model.add(say("Hi.", usage=(1_000, 100)), say("Ho.", usage=(2_000, 200)))
    conversation_id = await api.new_conversation()
    for _ in range(2):
        await api.start_run(conversation_id)
        await api.ended(conversation_id)
    first, second = (await api.get("conversations", conversation_id))["runs"]
    assert (first["usage"]["cost"], second["usage"]["cost"]) == (0.0011, 0.0022)
    report = await api.get("usage", days="1")
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    assert (report["days"], report["since"]) == (1, today)
    assert report["totals"]["cost"] == 0.0033
    assert [(one["day"], one["turns"]) for one in report["by_day"]] == [(today, 2)]
    [of_conversation] = report["by_conversation"]
    assert (of_conversation["conversation_id"], of_conversation["cost"]) == (conversation_id, 0.0033)
    assert (await api("DELETE", "conversations", conversation_id))[0] == 204
    report = await api.get("usage")
    assert (report["totals"]["cost"], report["by_conversation"]) == (0.0033, [])
