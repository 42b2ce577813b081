"""A page of the AI SDK drives the notebook: the real packages, a real server, real kernels."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from agent_kernel.models.base import ModelTurn
from agent_kernel.testing import FakeOpenAI, call, calls, say
from tests.ai_sdk.conftest import OpenPage, Page, Part, start_page, text, tools
from tests.faults import server as killed_servers
from tests.server.client import Api, Kernel, OpenChannel, chat_chunks, chat_text
from tests.server.serving import Server
from tests.waiting import look_until

pytestmark = pytest.mark.kernel

COUNT = "runs = globals().get('runs', 0) + 1"


def states(state: dict[str, Any]) -> list[str]:
    return [part["state"] for part in tools(state)]


@dataclass
class Counted:
    """A page that has asked for a count, which the model wants to make by a call that waits."""

    page: Page
    part: Part
    kernel: Kernel

    async def decide(self, approved: bool = True, **more: Any) -> None:
        await self.page("decide", id=self.part["approval"]["id"], approved=approved, **more)

    async def times(self) -> int:
        return await times_run(self.kernel)


@pytest_asyncio.fixture(loop_scope="module")
async def count(page: OpenPage, model: FakeOpenAI, kernel: Kernel) -> Callable[..., Awaitable[Counted]]:
    async def begin(*answers: ModelTurn, code: str = COUNT) -> Counted:
        model.add(call("run_python", code=code), *answers)
        one = await page(kernel_id=kernel.kernel_id)
        await one("send", text="Count.")
        [part] = tools(await one.answered())
        assert part["state"] == "approval-requested"
        return Counted(one, part, kernel)

    return begin


Count = Callable[..., Awaitable[Counted]]


async def times_run(kernel: Kernel) -> int:
    return int(await kernel.text("print(globals().get('runs', 0))"))


async def whole(page: Page, api: Api) -> list[dict[str, Any]]:
    """The chat's messages as a page gets them after a reload. They pass the package's own check."""
    messages = await api.get("ai-sdk", "chat", page.chat_id)
    assert await page("validate", messages=messages) == len(messages)
    return list(messages)


async def same_after_a_reload(page: Page, api: Api) -> None:
    """What a page has of the calls and texts is what it gets after a reload, with the same ids."""
    live = (await page("state"))["messages"]
    loaded = await whole(page, api)
    assert [(one["id"], one["role"], _essence(one)) for one in live] == [
        (one["id"], one["role"], _essence(one)) for one in loaded
    ]


def _essence(message: dict[str, Any]) -> list[Any]:
    found: list[Any] = []
    for part in message["parts"]:
        if part["type"] in ("text", "reasoning"):
            found.append((part["type"], part["text"]))
        elif part["type"].startswith("tool-"):
            kept = ("type", "toolCallId", "state", "input", "output", "errorText")
            found.append({name: part.get(name) for name in kept})
    return found


async def test_an_approved_call_runs_once_and_the_page_goes_on_by_itself_also_where_its_requests_come_again(
    count: Count, api: Api, server: Server, model: FakeOpenAI
) -> None:
    counted = await count(say("Done."), code=f"{COUNT}\nprint('six')")
    assert (counted.part["type"], counted.part["input"]["code"][:4]) == ("tool-run_python", "runs")
    assert await counted.times() == 0
    await counted.decide()
    state = await counted.page.said("Done.")
    [part] = tools(state)
    assert (part["state"], part["output"]["text"].strip()) == ("output-available", "six")
    assert part["output"]["outputs"] == [{"output_type": "stream", "name": "stdout", "text": "six\n"}]
    assert (len(state["requests"]), state["failures"], len(state["messages"])) == (2, [], 2)
    for request in state["requests"]:
        for chunks in await asyncio.gather(*(chat_chunks(server.fetch, request["body"]) for _ in range(2))):
            assert (chat_text(chunks), chunks[-1]["type"]) == ("Done.", "finish")
    assert (await counted.times(), len(model.requests)) == (1, 2)
    await same_after_a_reload(counted.page, api)


async def test_three_calls_of_a_step_are_answered_in_one_request(
    page: OpenPage, api: Api, model: FakeOpenAI, kernel: Kernel
) -> None:
    model.add(calls(*(call("run_python", code=f"{COUNT}\nprint({number})") for number in range(3))), say("Done."))
    one = await page(kernel_id=kernel.kernel_id)
    await one("send", text="Count.")
    asked = tools(await one.answered())
    assert [part["state"] for part in asked] == ["approval-requested"] * 3
    for part, approved in zip(asked, (True, False, True), strict=True):
        await one(
            "decide", id=part["approval"]["id"], approved=approved, **({} if approved else {"reason": "Not two."})
        )
    state = await one.said("Done.")
    assert states(state) == ["output-available", "output-denied", "output-available"]
    assert len(state["requests"]) == 2
    assert await times_run(kernel) == 2
    assert "Not two." in json.dumps(model.requests[-1].body)
    await same_after_a_reload(one, api)
    denied = tools({"messages": await whole(one, api)})[1]
    assert denied["approval"] == {"id": asked[1]["approval"]["id"], "approved": False, "reason": "Not two."}


async def test_arguments_that_the_page_changed_never_run(count: Count) -> None:
    counted = await count(say("Done."), code=f"{COUNT}\nbig = 9007199254740993")
    messages = (await counted.page("state"))["messages"]
    tools({"messages": messages})[0]["input"]["code"] = "tampered = True"
    await counted.page("replace", messages=messages)
    await counted.decide()
    await counted.page.said("Done.")
    found = "print(big, runs, globals().get('tampered'))"
    assert await counted.kernel.text(found) == "9007199254740993 1 None\n"


async def test_a_new_message_replaces_a_call_that_waits(count: Count, api: Api) -> None:
    counted = await count(say("As you like."))
    await counted.page("send", text="Leave it.")
    state = await counted.page.answered()
    assert text(state) == "As you like."
    loaded = await whole(counted.page, api)
    assert [message["role"] for message in loaded] == ["user", "assistant", "user", "assistant"]
    [replaced] = tools({"messages": loaded[:2]})
    assert (replaced["state"], "Replaced by a new message" in replaced["errorText"]) == ("output-error", True)
    assert [one["id"] for one in state["messages"]] == [one["id"] for one in loaded]
    assert await counted.times() == 0


async def test_a_call_that_was_decided_in_the_notebook_is_shown_so_whatever_the_page_says_then(
    count: Count, client: OpenChannel
) -> None:
    counted = await count(say("Done."))
    card = await client("chat-1")
    assert (await card.next())["pending"][0]["approval_id"] == counted.part["approval"]["id"]
    await card.send({"type": "approval_response", "approval_id": counted.part["approval"]["id"], "approved": False})
    await card.until("complete")
    await counted.decide()
    assert states(await counted.page.said("Done.")) == ["output-denied"]
    assert await counted.times() == 0


async def test_a_page_that_reloads_in_the_middle_of_a_call_goes_on_with_it(
    page: OpenPage, api: Api, model: FakeOpenAI, kernel: Kernel, tmp_path: Path
) -> None:
    begun = tmp_path / "begun"
    code = f"{COUNT}\nopen({str(begun)!r}, 'w').close()\nimport time\nwhile 'go' not in globals(): time.sleep(0.01)"
    model.add(call("run_python", code=code))
    one = await page(kernel_id=kernel.kernel_id, policy="allow")
    await one("begin", text="Count.")
    await one.until(lambda now: states(now) == ["input-available"] if len(now["messages"]) > 1 else None)
    await look_until(lambda: asyncio.to_thread(begun.exists), "the call to begin")
    await one("stop")
    await one.open("again", messages=await whole(one, api))
    await one("begin_resume", chat="again")
    await one.until(lambda now: now["status"] == "streaming", "again")
    [running] = await api.get("runs", state="running")
    await api("POST", "conversations", "chat-1", "runs", running["run_id"], "cancel")
    state = await one.until(lambda now: now if now["status"] == "ready" else None, "again")
    assert states(state) == ["output-error"]
    assert len(state["messages"]) == 2
    assert await times_run(kernel) == 1


async def test_a_tool_of_the_page_gives_the_model_its_output(page: OpenPage, api: Api, model: FakeOpenAI) -> None:
    model.add(call("pick_color"), say("Red it is."))
    model.add(call("pick_color"), say("None then."))
    schema = {"type": "object", "properties": {}}
    one = await page(tools={"pick_color": {"description": "Asks for a color.", "parameters": schema}})
    await one("send", text="Pick.")
    [part] = tools(await one.answered())
    assert part["state"] == "input-available"
    await one("output", tool="pick_color", toolCallId=part["toolCallId"], output={"color": "red"})
    state = await one.said("Red it is.")
    assert (tools(state)[0]["output"], len(state["requests"])) == ({"color": "red"}, 2)
    assert '\\"red\\"' in json.dumps(model.requests[-1].body)
    await same_after_a_reload(one, api)
    await one("send", text="Pick another.")
    [part] = tools(await one.answered())
    failed = {"state": "output-error", "errorText": "The page has no colors."}
    await one("output", tool="pick_color", toolCallId=part["toolCallId"], **failed)
    state = await one.said("None then.")
    assert "The page has no colors." in json.dumps(model.requests[-1].body)


async def test_an_approval_that_nobody_asked_for_changes_nothing_and_is_told(count: Count, api: Api) -> None:
    counted = await count()
    messages = (await counted.page("state"))["messages"]
    tools({"messages": messages})[0]["approval"]["id"] = "apr_forged"
    await counted.page("replace", messages=messages)
    await counted.page("decide", id="apr_forged", approved=True)
    state = await counted.page.until(lambda now: now if now["status"] == "error" else None)
    assert "apr_forged" in state["failures"][0]
    assert await counted.times() == 0
    assert (await api.pending())[0]["state"] == "awaiting_approval"


async def test_a_server_that_is_killed_between_an_approval_and_its_outcome_is_gone_on_with(
    node: Path, version: int, model: FakeOpenAI, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    code = f"with open({str(ran)!r}, 'a') as file: file.write('x')\nimport time; time.sleep(600)"
    model.add(call("run_python", code=code))
    async with killed_servers.Server(tmp_path / "server", model.environment()) as server:
        one = Page(await start_page(server.port, killed_servers.TOKEN, node, version), "chat-1", {})
        one.body = {"kernel_id": await server.start_kernel()}
        await one.open()
        await one("send", text="Go.")
        [part] = tools(await one.answered())
        await one("decide", id=part["approval"]["id"], approved=True)
        await look_until(lambda: asyncio.to_thread(ran.exists), "the call to run")
        await server.kill()
        await one.until(lambda now: now["status"] == "error")
        await server.start(server.port)
        await one("send_answers")
        state = await one.until(lambda now: now if len(now["failures"]) > 1 else None)
        assert "The server restarted" in state["failures"][1]
        assert states(state) == ["output-error"]
        assert "Outcome unknown" in tools(state)[0]["errorText"]
        status, loaded = await server.ask("GET", "agent-kernel/api/ai-sdk/chat/chat-1")
        assert (status, tools({"messages": loaded})[0]["errorText"]) == (200, tools(state)[0]["errorText"])
        await one.close()
    assert ran.read_text() == "x"


async def test_of_two_pages_that_decide_differently_one_wins_and_both_show_it(
    count: Count, page: OpenPage, api: Api
) -> None:
    counted = await count(say("Done."))
    other = await page()
    await other.open(messages=await whole(counted.page, api))
    pages, approval_id = (counted.page, other), counted.part["approval"]["id"]
    await asyncio.gather(*(each("decide", id=approval_id, approved=each is other) for each in pages))
    seen = [states(await each.said("Done.")) for each in pages]
    assert seen[0] == seen[1]
    assert await counted.times() == (seen[0] == ["output-available"])
