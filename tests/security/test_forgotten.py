"""What was deleted is gone, for the model and for the pages; only the audit trail keeps it."""

from agent_kernel.testing import FakeOpenAI, say
from tests.server.client import Api


async def test_a_new_conversation_knows_nothing_of_a_deleted_one(api: Api, model: FakeOpenAI) -> None:
    model.add(say("I will keep it to myself."), say("Hello."))
    deleted = await api.begin(content="The password is hunter2.")
    await api.ended(deleted)
    assert (await api("DELETE", "conversations", deleted))[0] == 204
    view = await api.ended(await api.begin(content="Who am I?"))
    heard = [message["content"] for message in model.requests[-1].body["messages"] if message["role"] != "system"]
    assert heard == ["Who am I?"]
    assert [message["content"] for message in view["messages"]] == ["Who am I?", "Hello."]
