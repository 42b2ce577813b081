"""The rules that people saved: listed and removed over HTTP, and from a cell."""

from typing import Any

import pytest

from agent_kernel.testing import FakeOpenAI, call, say
from tests.server.client import Api, Kernel

pytestmark = pytest.mark.kernel


@pytest.fixture
def extension_traits() -> dict[str, Any]:
    return {"site_rules": ["deny run_shell"]}


async def test_rules_are_listed_with_who_made_them_and_one_is_removed(
    api: Api, kernel: Kernel, model: FakeOpenAI
) -> None:
    model.add(call("run_python", code="1"), say("Done."))
    conversation_id = await api.begin(kernel)
    await api.decide(scope="user")
    [run] = (await api.ended(conversation_id))["runs"]
    assert [one["origin"] for one in run["policy"]["rules"]] == ["site", "saved"]
    site, rule = await api.get("rules")
    assert (site["origin"], site["text"], site["rule_id"]) == ("site", "deny run_shell", None)
    assert (rule["origin"], rule["text"], rule["scope"]) == ("saved", "allow run_python", "user")
    assert (rule["tool_name"], rule["made_at"] is None) == ("run_python", False)
    assert (await api("DELETE", "rules", rule["rule_id"]))[0] == 204
    assert [one["origin"] for one in await api.get("rules")] == ["site"]
    status, gone = await api("DELETE", "rules", rule["rule_id"])
    assert (status, gone["message"]) == (404, f"There is no rule {rule['rule_id']!r}.")
