"""A conversation as Anthropic's service takes it, whatever has happened in it."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from agent_kernel.models.anthropic import NO_RESULT, MessagesApi
from agent_kernel.models.base import ModelRequest, WireMessage
from agent_kernel.models.provider_items import CallItem, OpaqueItem, ProviderItems, TextItem
from agent_kernel.testing.fake_anthropic import check_request
from agent_kernel.testing.wire.schemas import check_messages_request

API = MessagesApi("claude-sonnet-5-5", "http://here")
ORIGIN = API.origin
THOUGHT = {"type": "thinking", "thinking": "Hm", "signature": "c2ln"}
PIXEL = {"digest": "d1", "media_type": "image/png", "width": 3, "height": 2}
GONE = {**PIXEL, "digest": "d2"}
TOOL = {"type": "function", "function": {"name": "look", "description": "Look.", "parameters": {"type": "object"}}}


def user(text: str, **fields: Any) -> WireMessage:
    return {"role": "user", "content": text, **fields}


def asked(*ids: str, text: str = "", name: str = "look", provider: ProviderItems | None = None) -> WireMessage:
    calls = [{"id": one, "type": "function", "function": {"name": name, "arguments": '{"a": 1}'}} for one in ids]
    message: WireMessage = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = calls
    return message if provider is None else {**message, "provider": provider.to_wire()}


def result(call_id: str, text: str = "done", **fields: Any) -> WireMessage:
    return {"role": "tool", "tool_call_id": call_id, "content": text, **fields}


def body_of(*messages: WireMessage, **options: Any) -> dict[str, Any]:
    """The request, which the service takes."""
    sent: dict[str, Any] = json.loads(json.dumps(API.body(ModelRequest(messages, **options))))
    check_request(sent)
    check_messages_request(sent)
    return sent


def bare(value: Any) -> Any:
    """Without the marks for the cache."""
    if isinstance(value, dict):
        return {name: bare(inner) for name, inner in value.items() if name != "cache_control"}
    return [bare(inner) for inner in value] if isinstance(value, list) else value


def said(*messages: WireMessage, **options: Any) -> list[Any]:
    return [(one["role"], one["content"]) for one in bare(body_of(*messages, **options))["messages"]]


def words(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


def use(call_id: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "look", "input": {"a": 1}}


def told(call_id: str, content: Any, **fields: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **fields}


def test_a_call_without_a_result_gets_one_and_a_result_without_a_call_is_left_out() -> None:
    got = said(user("Hi"), asked("a", "b"), result("b"), result("c"), user("And now?"))
    assert got[-1][1] == [told("a", NO_RESULT, is_error=True), told("b", "done"), words("And now?")]


def flat(body: dict[str, Any]) -> list[tuple[str, str, bool]]:
    """All blocks in the service's order, without marks and with whether they had one."""
    blocks = [("tool", tool) for tool in body.get("tools", ())] + [("system", one) for one in body.get("system", ())]
    blocks += [(message["role"], block) for message in body["messages"] for block in message["content"]]
    return [(place, json.dumps(bare(block)), "cache_control" in block) for place, block in blocks]


def test_a_long_conversation_reads_its_cache_at_each_step() -> None:
    """What stands before the last mark of a request is, byte for byte, how the next one begins, and that has a mark at
    the same place: however many calls a step has, the service finds what it kept."""
    messages: list[WireMessage] = [{"role": "system", "content": "Be brief."}, user("Hi")]
    bodies = [body_of(*messages, tools=(TOOL,))]
    for step in range(12):
        ids = [f"c{step}_{n}" for n in range(30 if step == 5 else 2)]
        thought = ProviderItems("messages", ORIGIN, (OpaqueItem(THOUGHT), *(CallItem(n) for n in range(len(ids)))))
        messages += [asked(*ids, provider=thought), *(result(one, f"{step}", images=[PIXEL]) for one in ids)]
        if step % 4 == 3:
            bodies.append(body_of(*messages, tools=(TOOL,), images={"d1": "AAAA"}))
            messages += [asked(text="There."), user(f"And {step}?")]
        bodies.append(body_of(*messages, tools=(TOOL,), images={"d1": "AAAA"}))
    for before, after in zip(map(flat, bodies), map(flat, bodies[1:]), strict=False):
        end = max(at for at, (_, _, marked) in enumerate(before) if marked) + 1
        assert end == len(before)
        assert [one[:2] for one in after[:end]] == [one[:2] for one in before]
        assert after[end - 1][2]
        assert sum(marked for _, _, marked in after) <= 4


ids = st.sampled_from(["c1", "c2", "functions.f:0", "", "ü", "x" * 80]) | st.text(max_size=5)
texts = st.sampled_from(["", " ", "\n", "Hi", "Error: no"]) | st.text(max_size=5)
provider_items = st.lists(
    st.builds(TextItem, st.integers(0, 5)) | st.builds(CallItem, st.integers(0, 3)) | st.just(OpaqueItem(THOUGHT)),
    max_size=4,
)
refs = st.fixed_dictionaries({}, optional={"images": st.lists(st.sampled_from([PIXEL, GONE]), max_size=2)})
histories = st.lists(
    st.builds(lambda text, fields: user(text, **fields), texts, refs)
    | st.builds(
        lambda called, text, items: asked(
            *called, text=text, provider=ProviderItems("messages", ORIGIN, tuple(items)) if items else None
        ),
        st.lists(ids, max_size=3, unique=True),
        texts,
        provider_items,
    )
    | st.builds(lambda one, text, fields: result(one, text, **fields), ids, texts, refs),
    max_size=8,
)


def told_apart(messages: list[WireMessage]) -> list[WireMessage]:
    """With the ids of calls made unique, as the loop does."""
    seen: set[str] = set()
    for number, message in enumerate(messages):
        for call in message.get("tool_calls", ()):
            call["id"] = f"{call['id']}~{number}" if call["id"] in seen else call["id"]
            seen.add(call["id"])
    return messages


@settings(max_examples=150)
@given(histories)
def test_whatever_happened_the_service_takes_the_conversation(messages: list[WireMessage]) -> None:
    body_of(*told_apart(messages), images={"d1": "AAAA"})
