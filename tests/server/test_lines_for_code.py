"""`input()` and `getpass()` in a call: a person is asked for the line, and a password is kept nowhere."""

import json
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.testing import FakeOpenAI, call, say
from agent_kernel.tools.arguments import canonical
from agent_kernel_server.app import LOG_NAME
from tests.server.client import Api, Kernel
from tests.server.serving import Server
from tests.waiting import look_until

pytestmark = pytest.mark.kernel
PASSWORD = "correct horse battery"
CODE = """
from getpass import getpass
name = input("Name: ")
password = getpass("Password: ")
print("Hello,", name, password)
again = input()
"""


def kept(folder: Path) -> str:
    """All that the log's files hold."""
    files = list(folder.glob(f"{LOG_NAME}*"))
    assert files
    return b"".join(file.read_bytes() for file in files).decode(errors="replace")


async def asked(api: Api, **question: str) -> Any:
    """The next question of the code."""

    async def look() -> Any:
        calls = await api.get("approvals", state="executing")
        return next((one for one in calls if one["tool_input"] == canonical(question)), None)

    return await look_until(look, "the question")


async def printed(api: Api, conversation_id: str, text: str) -> None:
    """Until a call has printed this."""

    async def look() -> bool:
        calls = (await api.get("conversations", conversation_id))["tool_calls"]
        return text in "".join(output["text"] for one in calls for output in one["outputs"])

    await look_until(look, text)


async def test_code_that_asks_for_lines_gets_them_in_order_and_a_password_is_kept_nowhere(
    api: Api, loaded: Kernel, model: FakeOpenAI, server: Server
) -> None:
    model.add(call("run_python", code=CODE), call("inspect_variables"), say("Done."))
    conversation_id = await api.begin(loaded)
    await api.decide()
    for line, question, text, before in (
        ("text", "Name:", "Ana", ""),
        ("password", "Password:", PASSWORD, "Name: Ana"),
        ("text", "The code asks for a line.", "", "Hello, Ana"),
    ):
        question_call = await asked(api, question=question, line=line)
        await printed(api, conversation_id, before)  # output and questions come on channels of their own
        await api("POST", "approvals", question_call["approval_id"], "result", body={"output": text})
    ended = await api.ended(conversation_id)
    code, looked, *questions = sorted(ended["tool_calls"], key=lambda one: one["tool_name"] == "ask_user")
    assert [one["result"] for one in questions] == ["Ana", "A password was typed. It is not kept.", ""]
    shown = "".join(one["text"] for one in code["outputs"])
    assert shown.startswith("Name: Ana\nPassword: ········\nHello, Ana ")
    assert code["state"] == looked["state"] == "success"
    told = json.dumps([request.body for request in model.requests])
    for place in (json.dumps(ended), told, kept(Path(server.extension.data_dir))):
        assert PASSWORD not in place
