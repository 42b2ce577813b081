"""Keys that a service repeats go no further, however it writes them."""

import html
import json
from collections.abc import Callable
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_kernel.models.base import ModelItem, ModelTurn, TextDelta, ToolCallDelta
from agent_kernel.models.redaction import IN_PLACE, TELLING_CHARACTERS, Redaction, Secrets
from agent_kernel.testing import calls, requested
from agent_kernel.testing.wire.reply import Reply
from tests.core.models.model_apis import WireApi, each_api
from tests.core.models.model_fixtures import connected, turn_of

KEY = "sk-test-0123456789"
TOKEN = 'a token / with "quotes" and ä'


def passed(*items: ModelItem, secrets: tuple[str, ...] = (KEY, TOKEN)) -> list[ModelItem]:
    redaction = Redaction(secrets)
    return [clean for item in items for clean in redaction.take(item)]


@given(st.lists(st.sampled_from([KEY, TOKEN, KEY[:5], KEY[5:], "s", "sk-", " and ", "ä"])), st.data())
def test_in_pieces_of_any_size_a_key_is_replaced_as_in_the_whole(parts: list[str], data: st.DataObject) -> None:
    text = "".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=20)))
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    *deltas, turn = passed(*map(TextDelta, pieces), ModelTurn(content=text))
    assert isinstance(turn, ModelTurn)
    shown = "".join(delta.content for delta in deltas if isinstance(delta, TextDelta))
    assert KEY not in shown
    assert TOKEN not in shown
    assert shown == turn.content == text.replace(KEY, IN_PLACE).replace(TOKEN, IN_PLACE)


@pytest.mark.parametrize(
    "write",
    [
        str,
        repr,
        json.dumps,
        lambda text: json.dumps(text, ensure_ascii=False),
        lambda text: quote(text, safe=""),
        html.escape,
    ],
)
@pytest.mark.parametrize("secret", [KEY, TOKEN, "back\\slash'<&>"])
def test_a_key_is_replaced_in_the_writings_of_other_languages(secret: str, write: Callable[[str], str]) -> None:
    written = write(secret)
    shown = Secrets([secret]).clean(f"key = {written}.")
    assert shown.strip("'\"") in (f"key = {IN_PLACE}.", f"key = '{IN_PLACE}'.", f'key = "{IN_PLACE}".')


def test_a_key_that_was_cut_off_is_replaced_as_a_whole_one() -> None:
    key = "sk-proj-" + "aB3_-x9Z" * 20
    for end in range(TELLING_CHARACTERS, len(key) + 1):
        for sign in ("", "...", "…", "'...", ", ", "\n"):
            assert Secrets([key]).clean(f"k = '{key[:end]}{sign}").removesuffix(sign) == f"k = '{IN_PLACE}"
    assert Secrets([key]).clean("sk-proj-other") == "sk-proj-other"


@pytest.mark.parametrize("secret", [KEY, TOKEN])
def test_a_call_tells_no_key_in_any_of_its_parts(secret: str) -> None:
    escaped = "".join(f"\\u{ord(character):04x}" for character in secret)
    call = requested(f"f{secret}", f'{{"a": "{escaped}", "b": {json.dumps(secret)}}}', call_id=f"c{secret}")
    begun, turn = passed(ToolCallDelta(0, call.name, call.id), ModelTurn(content="", tool_calls=(call,)))
    assert secret not in f"{begun!r}"
    assert isinstance(turn, ModelTurn)
    (clean,) = turn.tool_calls
    assert (clean.name, clean.id) == (f"f{IN_PLACE}", f"c{IN_PLACE}")
    assert set(json.loads(clean.arguments).values()) == {IN_PLACE}


@each_api
async def test_a_service_that_repeats_its_key_is_not_repeated(api: WireApi) -> None:
    turn = calls(requested_turn(api.key), text=f"Your key is {api.key}.", reasoning=f"Hm, {api.key}")
    async with connected(Reply(body=api.body(turn), split_every=5), api=api) as (server, model):
        heard = await turn_of(model)
        assert api.sent_key(server.requests[0]) == api.key
    assert api.key not in repr(heard)
    assert heard.content == f"Your key is {IN_PLACE}."
    assert heard.provider is None


def requested_turn(key: str) -> ModelTurn:
    return ModelTurn(content="", tool_calls=(requested("f", {"code": f"print('{key}')"}, call_id=f"c-{key}"),))
