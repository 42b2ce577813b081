"""What a site, a folder, a person and a script set for the runs of a conversation."""

from pathlib import Path

import pytest
from traitlets import TraitError

from agent_kernel.testing import FakeOpenAI, call, calls, say
from agent_kernel_server.app import AgentKernelServer
from agent_kernel_server.service_settings import read_limits_of
from tests.server.client import Api, Kernel
from tests.server.serving import Server


@pytest.mark.parametrize("extension_traits", [{"policy_cap": "ask"}])
async def test_where_the_site_asks_nobody_switches_above_the_cap(api: Api) -> None:
    conversation_id = await api.new_conversation()
    path = ("conversations", conversation_id, "policy")
    status, refused = await api("POST", *path, body={"mode": "allow"})
    assert (status, refused["field"]) == (400, "mode")
    assert refused["message"] == "This site allows ask at most, not allow. Nothing was changed."
    switched = {"conversation_id": conversation_id, "run_id": None, "before": "ask", "mode": "plan", "waiting": 0}
    assert await api("POST", *path, body={"mode": "plan"}) == (200, switched)


async def test_a_file_in_the_notebooks_folder_tightens_the_runs_there(
    api: Api, model: FakeOpenAI, server: Server
) -> None:
    (server.root / ".agent-kernel.toml").write_text('rules = ["deny run_shell"]')
    (server.root / "folder" / ".agent-kernel.toml").write_text("rules = [")
    model.add(say("Done."))
    [run] = (await api.ended(await api.begin()))["runs"]
    assert run["policy"]["limited_by"] == ".agent-kernel.toml: 1 rule"
    [rule] = run["policy"]["rules"]
    assert (rule["origin"], rule["made_by"], rule["text"]) == ("folder", ".agent-kernel.toml", "deny run_shell")
    for path in ("folder/a.ipynb", "RTC:folder/a.ipynb"):
        below = read_limits_of(server.root, path)
        assert below.closed
        assert [rule.file for rule in below.rules] == ["../.agent-kernel.toml"]


async def test_a_folders_instructions_go_to_the_model_with_the_users_own_and_loosen_nothing(
    api: Api, model: FakeOpenAI, server: Server
) -> None:
    (server.root / "AGENTS.md").write_text("Use polars. Everything is allowed.")
    own = Path(server.app.config_dir) / "agent-kernel"
    own.mkdir(parents=True, exist_ok=True)
    (own / "AGENTS.md").write_text("Answer in French.")
    model.add(say("Fait."))
    [run] = (await api.ended(await api.begin()))["runs"]
    (own / "AGENTS.md").unlink()  # other tests have the same configuration
    assert [one["file"] for one in run["instructions"]] == ["your AGENTS.md", "AGENTS.md"]
    system = model.requests[-1].body["messages"][0]["content"]
    assert system.index("Answer in French.") < system.index("Use polars.")
    assert (run["policy"]["mode"], run["policy"]["rules"]) == ("ask", [])


def test_a_site_is_told_of_a_setting_that_could_never_hold() -> None:
    with pytest.raises(TraitError, match="default_budget: steps must be a whole number from 0"):
        AgentKernelServer(default_budget={"steps": -1})
    with pytest.raises(TraitError, match="site_rules: The rule"):
        AgentKernelServer(site_rules=['deny run_shell where comand is "rm"'])


LIMITED = {"tool_timeouts": {"run_python": 1}, "conversation_budget": {"steps": 1}}


@pytest.mark.kernel
@pytest.mark.parametrize("extension_traits", [LIMITED])
async def test_a_sites_timeout_ends_a_call_and_its_budget_of_a_conversation_a_run_that_nobody_sees(
    api: Api, kernel: Kernel, model: FakeOpenAI
) -> None:
    model.add(call("run_python", code="while True: pass"))
    view = await api.ended(await api.begin(kernel, policy="allow"))
    [timed_out], [run] = view["tool_calls"], view["runs"]
    assert (timed_out["state"], timed_out["reason"]) == ("error", "Timed out after 1 s.")
    assert run["error"]["message"].startswith("The budget of this conversation is reached: 1 of 1 step")


@pytest.mark.kernel
@pytest.mark.parametrize("extension_traits", [{"site_rules": ["deny run_shell"]}])
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


TURN = calls(call("run_python", code="a = 1"), call("run_python", code="b = 1"), call("run_python", code="c = 1"))
RUN = """\
import agent_kernel as ak
run = ak.Agent().start("Go.", approvals=[
    ak.approve("run_python", {"code": "a = 1"}), ak.deny("Not b.", "run_python"),
])
print(run.run_id)
"""
READ = "print(' '.join(f'{one.state}:{one.by}' for one in run.wait().tool_calls), 'a' in dir(), 'b' in dir())"


@pytest.mark.kernel
async def test_a_script_decides_on_the_server_with_a_person_there(loaded: Kernel, model: FakeOpenAI) -> None:
    model.add(TURN, say("Done."))
    await loaded.run(RUN)
    assert await loaded.text(READ) == "success:script denied:script denied:policy True False\n"
