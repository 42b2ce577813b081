"""Calls of tools of MCP servers in runs: a server in Python with the official package, and a real Jupyter server."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.testing import FakeOpenAI, call, calls, say
from tests.server.client import Api
from tests.server.mcp_servers import *  # noqa: F403 -- fixtures, which pytest finds by their names
from tests.server.mcp_servers import PEER, approved, ready, run_calls, until_unknown
from tests.server.serving import Server
from tests.waiting import look_until, until


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_pictures_resources_progress_and_messages_are_on_the_card(api: Api, model: FakeOpenAI, era: str) -> None:
    view = await run_calls(api, model, call(f"{era}__mixed"), call(f"{era}__work"))
    mixed, work = view["tool_calls"]
    assert "a text" in mixed["result"]
    assert "Resource memo://1:\na memo" in mixed["result"]
    assert any("image/png" in output["data"] for output in mixed["outputs"])
    shown = [output["text"] or output["data"].get("text/plain") for output in work["outputs"]]
    assert "3 of 3: step 3" in shown
    assert any("half of it is done" in text for text in shown)
    assert (work["state"], work["by"], work["result"]) == ("success", "user", "worked")


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_server_that_dies_in_a_call_leaves_an_unknown_outcome_and_is_started_again(
    api: Api, model: FakeOpenAI, folder: Path, era: str
) -> None:
    died = folder / "died"
    died.unlink(missing_ok=True)
    await ready(api)
    lost = await until_unknown(api, (await approved(api, model, call(f"{era}__die")))["conversation_id"])
    assert f"The MCP server {era} was lost while it had the call." in lost["result"]
    await ready(api)
    assert died.read_text() == "x"


async def test_a_cancelled_call_reaches_the_server(api: Api, model: FakeOpenAI, folder: Path) -> None:
    for name in ("begun", "told"):
        (folder / name).unlink(missing_ok=True)
    await ready(api)
    hanging = await approved(api, model, call("modern__hang"))
    await until((folder / "begun").exists)
    await api("POST", "approvals", hanging["approval_id"], "cancel")
    [one] = (await api.ended(hanging["conversation_id"]))["tool_calls"]
    assert one["state"] == "cancelled"
    await until((folder / "told").exists)


async def test_errors_and_odd_names(api: Api, model: FakeOpenAI) -> None:
    tools = await ready(api)
    [odd] = [name for name, tool in tools.items() if tool["tool"] == "odd/name.with ünï" and name.startswith("modern")]
    assert odd == "modern__odd_name_with_" + odd.removeprefix("modern__odd_name_with_")
    view = await run_calls(api, model, call("modern__fail"), call(odd))
    assert [one["state"] for one in view["tool_calls"]] == ["error", "success"]
    assert "it is broken" in view["tool_calls"][0]["result"]


async def test_a_message_of_100_mb_ends_the_server_and_not_ours(api: Api, model: FakeOpenAI) -> None:
    await ready(api)
    asked = await approved(api, model, call("modern__flood", megabytes=100))
    await until_unknown(api, asked["conversation_id"])
    await ready(api)


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_question_of_the_server_is_a_card_that_asks_the_user(api: Api, model: FakeOpenAI, era: str) -> None:
    await ready(api)
    last = await approved(api, model, call(f"{era}__ask"), call(f"{era}__ask_secret"))

    async def asked() -> Any:
        return [one for one in await api.get("approvals") if one["tool_name"] == "ask_user"]

    [question] = await look_until(asked)
    assert (question["state"], "How large?" in question["tool_input"]) == ("executing", True)
    assert (await api("POST", "approvals", question["approval_id"], "result", body={"output": "7"}))[0] < 300
    view = await api.ended(last["conversation_id"])
    by_name = {one["tool_name"].removeprefix(f"{era}__"): one for one in view["tool_calls"]}
    assert (by_name["ask"]["result"], by_name["ask_user"]["result"]) == ("size 7", "7")
    assert by_name["ask_secret"]["state"] == "error"
    assert any("asks for a secret" in output["text"] for output in by_name["ask_secret"]["outputs"])
    messages = model.requests[-1].body["messages"]
    assert [one["role"] for one in messages][-3:] == ["assistant", "tool", "tool"]  # the model hears of its own calls


@pytest.mark.parametrize(("era", "tool"), [("modern", "ask_address"), ("legacy", "require_address")])
async def test_a_server_can_not_have_an_address_opened(api: Api, model: FakeOpenAI, era: str, tool: str) -> None:
    """Elicitation of an address: it is shown on the call's card, and the server is told that it was refused."""
    view = await run_calls(api, model, call(f"{era}__{tool}"))
    [asked] = view["tool_calls"]
    assert asked["state"] == "error"
    assert "can't have a page opened" in asked["result"]
    assert any("It wanted https://else.example/sign-in" in output["text"] for output in asked["outputs"])


async def test_a_server_can_not_use_the_users_model(api: Api, model: FakeOpenAI) -> None:
    """Sampling: the model is asked by the run alone, before the call and after it."""
    view = await run_calls(api, model, call("modern__sample"))
    assert view["tool_calls"][0]["state"] == "error"
    assert "it said" not in view["tool_calls"][0]["result"]
    assert len(model.requests) == 2


async def test_roots_are_the_notebooks_folder_and_the_environment_is_clean(
    api: Api, model: FakeOpenAI, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_THE_SERVER", "x")
    view = await run_calls(api, model, call("modern__roots"), call("modern__environment"))
    found, environment = view["tool_calls"]
    assert found["result"] == server.root.as_uri()
    assert "OPENAI_API_KEY" not in environment["result"]
    assert "JUPYTER" not in environment["result"]


async def redefined(api: Api, name: str) -> None:
    """Until what the tool says of itself is another."""

    async def look() -> bool:
        return "stranger" in (await ready(api))[name]["description"]

    await look_until(look)


async def test_a_tool_that_changed_since_it_was_allowed_asks_with_the_difference(api: Api, model: FakeOpenAI) -> None:
    await ready(api)
    look = calls(call("legacy__look"))
    model.add(look, say("Seen."), look, say("Seen."), calls(call("legacy__redefine")), say("Done."), look, say("No."))
    conversation_id = await api.begin()
    waiting = await api.decide(scope="conversation")
    assert any(rule["text"].startswith("allow legacy__look defined as ") for rule in waiting["rules"])
    await api.ended(conversation_id)
    await api.start_run(conversation_id)  # allowed, nobody is asked
    assert (await api.ended(conversation_id))["tool_calls"][-1]["by"] == "policy"
    await api.start_run(conversation_id)
    await api.decide()
    await api.ended(conversation_id)
    await redefined(api, "legacy__look")
    await api.start_run(conversation_id)
    waiting = await api.decide(approved=False)
    [changed] = [one for one in waiting["warnings"] if one["title"] == "Changed since you allowed it:"]
    assert '+  "Look, and mail it to a stranger."' in changed["detail"]
    await api.ended(conversation_id)


async def test_a_call_does_not_run_that_its_server_has_defined_otherwise_since_it_was_shown(
    api: Api, model: FakeOpenAI, folder: Path, own_file: Callable[..., None]
) -> None:
    own_file(moody={"command": sys.executable, "args": [PEER, "legacy", str(folder)]})
    await ready(api)
    model.add(calls(call("moody__redefine"), call("moody__look")), say("Done."))
    conversation_id = await api.begin()
    waiting = {one["tool_name"]: one for one in await api.all_waiting(2)}
    await api.decide(waiting["moody__redefine"])
    await redefined(api, "moody__look")
    await api.decide(waiting["moody__look"])
    look = (await api.ended(conversation_id))["tool_calls"][1]
    assert (look["tool_name"], look["state"], "Nothing ran" in look["result"]) == ("moody__look", "error", True)
