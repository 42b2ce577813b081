"""Limits that hold in a kernel of a server: a site's timeouts and its budget of conversations."""

import json
from typing import Any

import pytest
from traitlets import TraitError

from agent_kernel.testing import FakeOpenAI, call
from agent_kernel_server.app import AgentKernelServer
from tests.server.cells import ASK
from tests.server.client import Api, Kernel, OpenChannel

pytestmark = pytest.mark.kernel


@pytest.fixture
def extension_traits() -> dict[str, Any]:
    return {"tool_timeouts": {"run_python": 3}, "conversation_budget": {"steps": 2}}


async def test_a_sites_timeout_interrupts_a_call_in_its_kernel_and_its_budget_of_a_conversation_pauses_the_run(
    api: Api, open_kernel: Kernel, model: FakeOpenAI, client: OpenChannel
) -> None:
    code = "print('so far')\nwhile True: pass"
    model.add(call("run_python", code=code), call("inspect_variables"))
    await open_kernel.run(ASK.replace("%%agent", "%%agent --policy allow"))
    conversation_id = (await api.listed("runs"))[0]["conversation_id"]
    await client(conversation_id)
    [run] = await api.listed("runs", state="paused")
    view = (await api("GET", "conversations", conversation_id))[1]
    timed_out, quick = view["tool_calls"]
    assert (timed_out["state"], timed_out["reason"]) == ("error", "Timed out after 3 s.")
    assert "so far" in timed_out["result"]
    assert quick["state"] == "success"
    assert view["runs"][0]["conversation_budget"]["limits"]["steps"] == 2
    body = {"pause_id": "any", "add": {"steps": -1}}
    status, refused = await api("POST", "conversations", conversation_id, "runs", run["run_id"], "budget", body=body)
    assert status == 400
    assert "steps" in json.dumps(refused)
    await api("POST", "conversations", conversation_id, "runs", run["run_id"], "cancel")
    await api.ended(conversation_id)


@pytest.mark.parametrize(
    ("trait", "value", "said"),
    [
        *(
            (name, {"steps": value}, "steps must be a whole number from 0")
            for name in ("default_budget", "conversation_budget")
            for value in (-1, True, float("nan"), "5")
        ),
        *(("default_budget", {"usd": value}, "usd") for value in (-1, float("nan"), "much")),
        *(("tool_timeouts", {"run_python": value}, "run_python must be") for value in (-1, True, float("nan"), "5")),
        *(("site_rules", [rule], "The rule") for rule in ("permit run_shell", 'deny run_shell where comand is "rm"')),
    ],
)
def test_a_site_is_told_of_a_setting_that_could_never_hold(trait: str, value: Any, said: str) -> None:
    with pytest.raises(TraitError, match=f"{trait}: {said}"):
        AgentKernelServer(**{trait: value})
