"""Conversations in which nothing was ever asked: so many are kept, and idle ones give way."""

import pytest

from agent_kernel.errors import TooManyConversations
from agent_kernel.runtime import runtime as runtimes
from agent_kernel.testing import say
from tests.core.runtime.runtime_fixtures import Stages


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtimes, "MOST_EMPTY", 3)


async def test_one_too_many_is_refused_and_says_what_to_do_until_one_is_used(stages: Stages) -> None:
    one = await stages([say("Hello.")])  # its own conversation is the first
    made = [await one.runtime.create_conversation() for _ in range(2)]
    with pytest.raises(TooManyConversations, match="Start a run in one of them, or delete some"):
        await one.runtime.create_conversation()
    await one.runtime.create_conversation(conversation_id=made[0].conversation_id)  # it is there
    await one.run()
    await one.runtime.create_conversation()
    await one.runtime.delete_conversation(made[0].conversation_id)
    await one.runtime.create_conversation()
