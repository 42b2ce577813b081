"""The rules that people saved: listed and removed over HTTP, and from a cell."""

from typing import Any

import pytest
from traitlets import TraitError

from agent_kernel.testing import FakeOpenAI, call, say
from agent_kernel_server.app import AgentKernelServer
from tests.server.client import Api, Kernel

pytestmark = pytest.mark.kernel


@pytest.fixture
def extension_traits() -> dict[str, Any]:
    return {"site_rules": ["deny run_shell"]}


async def saved(api: Api, kernel: Kernel, model: FakeOpenAI) -> tuple[str, Any]:
    """A run that has ended, in which a person allowed all code for all notebooks; its conversation and that rule."""
    model.add(call("run_python", code="1"), say("Done."))
    conversation_id = await api.begin(kernel)
    await api.decide(scope="user")
    await api.ended(conversation_id)
    [rule] = [rule for rule in (await api("GET", "rules"))[1] if rule["origin"] == "saved"]
    return conversation_id, rule


async def test_rules_are_listed_with_who_made_them_and_one_is_removed(
    api: Api, kernel: Kernel, model: FakeOpenAI
) -> None:
    conversation_id, rule = await saved(api, kernel, model)
    assert (rule["text"], rule["scope"], rule["tool_name"]) == ("allow run_python", "user", "run_python")
    assert rule["made_at"] is not None
    [site, _] = (await api("GET", "rules"))[1]
    assert (site["origin"], site["text"], site["rule_id"]) == ("site", "deny run_shell", None)
    [run] = (await api("GET", "conversations", conversation_id))[1]["runs"]
    assert [one["origin"] for one in run["policy"]["rules"]] == ["site", "saved"]
    assert (await api("DELETE", "rules", rule["rule_id"]))[0] == 204
    assert [one["origin"] for one in (await api("GET", "rules"))[1]] == ["site"]
    status, gone = await api("DELETE", "rules", rule["rule_id"])
    assert (status, gone["message"]) == (404, f"There is no rule {rule['rule_id']!r}.")


async def test_no_request_makes_a_rule(api: Api) -> None:
    for path in (("rules",), ("rules", "rule_1")):
        status, _ = await api("POST", *path, body={"text": "allow *", "scope": "user"})
        assert status in (404, 405)
    assert [one["origin"] for one in (await api("GET", "rules"))[1]] == ["site"]


async def test_a_cell_lists_the_rules_and_takes_a_saved_one_out_of_force(
    api: Api, kernel: Kernel, model: FakeOpenAI
) -> None:
    model.add(call("run_python", code="1"), say("Done."))
    await kernel.run("%load_ext agent_kernel")
    await kernel.run("%agent Go on.")
    waiting = await api.decide(scope="user")
    await api.ended(waiting["conversation_id"])
    listed = await kernel.text("import agent_kernel; agent_kernel.last_run().wait(60)\n%agent rules")
    assert "   -  deny run_shell (this site)\n   1  allow run_python (all notebooks, saved" in listed
    assert (await kernel.text("%agent rules remove 1")).startswith("Removed: allow run_python.")
    assert [one["origin"] for one in (await api("GET", "rules"))[1]] == ["site"]
    refused = await kernel.run("%agent rules remove 7")
    assert any("There is no saved rule 7." in str(one["content"]) for one in refused)


@pytest.mark.parametrize("rule", ["permit run_shell", 'deny run_shell where comand matches "rm *"'])
def test_a_site_is_told_of_a_rule_that_could_never_say_anything(rule: str) -> None:
    with pytest.raises(TraitError, match="site_rules: The rule"):
        AgentKernelServer(site_rules=[rule])
