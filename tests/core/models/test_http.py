"""The adapter against a real server on a real socket: what a user gets, however the server says it."""

from contextlib import aclosing

from agent_kernel.models.base import TextDelta
from agent_kernel.testing.wire.reply import Reply
from tests.core.models.model_apis import WireApi, each_api
from tests.core.models.model_fixtures import REQUEST, connected, turn_of
from tests.waiting import until


@each_api
async def test_tokens_are_shown_as_they_come(api: WireApi) -> None:
    body = api.saying("Hel", "lo", end=False)
    async with connected(Reply(body=body, hang_after=len(body)), api=api, idle_seconds=5.0) as (server, model):
        seen = ""
        async with aclosing(model.stream(REQUEST)) as items:
            async for item in items:
                assert isinstance(item, TextDelta)
                seen += item.content
                if seen == "Hello":
                    break
        await until(lambda: server.abandoned == 1)


@each_api
async def test_a_connection_that_breaks_after_the_end_has_lost_nothing(api: WireApi) -> None:
    body = api.event_stream([*api.text(["Hi"]), *api.text_end(["Hi"])], done=False)
    async with connected(Reply(body=body, cut_after=len(body)), api=api) as (_, model):
        assert (await turn_of(model)).content == "Hi"
