"""The policy of a conversation, switched over HTTP and over the channel."""

from typing import Any

import pytest

from tests.server.client import Api


class TestWhereTheSiteAsks:
    @pytest.fixture
    def extension_traits(self) -> dict[str, Any]:
        return {"policy_cap": "ask"}

    async def test_nobody_switches_above_the_cap(self, api: Api) -> None:
        conversation_id = await api.new_conversation()
        path = ("conversations", conversation_id, "policy")
        status, refused = await api("POST", *path, body={"mode": "allow"})
        assert (status, refused["field"]) == (400, "mode")
        assert refused["message"] == "This site allows ask at most, not allow. Nothing was changed."
        status, switched = await api("POST", *path, body={"mode": "plan"})
        assert status == 200
        assert switched == {
            "conversation_id": conversation_id,
            "run_id": None,
            "before": "ask",
            "mode": "plan",
            "waiting": 0,
        }

    async def test_nor_over_the_channel(self, api: Api, face: Any) -> None:
        conversation_id = await api.new_conversation()
        page = await face(conversation_id)
        await page.next()
        await page.send({"type": "policy", "mode": "allow"})
        assert (await page.until("error"))["message"].startswith("This site allows ask at most")
        await page.send({"type": "policy", "mode": "deny"})
        switched = await page.until("policy")
        assert (switched["before"], switched["mode"], switched["run_id"]) == ("ask", "deny", None)
