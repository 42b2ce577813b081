"""The shipped test doubles: they fail where a test and the code disagree, and never otherwise."""

import pytest

from agent_kernel.errors import ModelRefused
from agent_kernel.testing import ScriptedModel, ScriptMismatch, say
from tests.core.models.model_fixtures import connected, turn_of


async def test_an_unexpected_request_fails() -> None:
    model = ScriptedModel([say("Hi")])
    await turn_of(model)
    with pytest.raises(ScriptMismatch, match=r"All 1 written turns were said.*role 'user': How many penguins"):
        await turn_of(model)
    with pytest.raises(ScriptMismatch, match="1 more turns than were written"):
        model.assert_consumed()


async def test_a_turn_that_nobody_asked_for_fails() -> None:
    model = ScriptedModel([say("1"), say("2")])
    with pytest.raises(ScriptMismatch, match="1 of 2 written turns were never asked for"), model:
        await turn_of(model)


async def ask_once_too_often() -> None:
    async with connected() as (_, model):
        with pytest.raises(ModelRefused, match="no more answers"):
            await turn_of(model)


async def test_the_fake_server_fails_on_unexpected_and_on_unconsumed_answers() -> None:
    with pytest.raises(ScriptMismatch, match="1 more answers"):
        await ask_once_too_often()
    with pytest.raises(ScriptMismatch, match="1 of 1 written answers were never asked for"):
        async with connected(say("Hi")):
            pass
