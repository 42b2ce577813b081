"""What is left out of a long conversation, whatever was said in it."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from agent_kernel.models.base import WireMessage
from agent_kernel.runtime.state.compaction import WHOLE, Compaction, applied, last_step, plan, summary_tokens, tokens_of

SYSTEM = {"role": "system", "content": "You are an agent."}
TEXTS = st.integers(0, 6_000).map(lambda size: ("naïve 数据\n" * size)[:size])


@st.composite
def histories(draw: st.DrawFn) -> list[WireMessage]:
    """A conversation up to a moment at which the model is asked."""
    history: list[WireMessage] = [SYSTEM]
    for run in range(draw(st.integers(1, 5))):
        history.append({"role": "user", "content": f"Prompt {run}. " + draw(TEXTS)})
        for step in range(draw(st.integers(0, 5))):
            ids = [f"{run}.{step}.{number}" for number in range(draw(st.integers(1, 3)))]
            history.append({"role": "assistant", "content": "", "tool_calls": [wire_call(one) for one in ids]})
            history.extend({"role": "tool", "tool_call_id": one, "content": draw(TEXTS)} for one in ids)
            if draw(st.integers(0, 9)) == 0:
                history.append({"role": "user", "content": f"Also {run}.{step}."})
        history.append({"role": "assistant", "content": draw(TEXTS)})
    del history[-1:]
    return history


def wire_call(call_id: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "look", "arguments": "{}"}}


def check_pairs(messages: list[WireMessage]) -> None:
    """Each call has exactly one tool message, right behind the message that asks for it, in its order."""
    asked: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            assert message["tool_call_id"] == asked.pop(0)
        else:
            assert asked == []
            asked = [call["id"] for call in message.get("tool_calls", ())]
    assert asked == []


def planned(history: list[WireMessage], now: Compaction, limit: float) -> Compaction:
    after = plan(history, now, 0.0, limit)
    if after.summarised > now.summarised:
        return Compaction(**{name: getattr(after, name) for name in after.__slots__} | {"summary": "They looked."})
    return after


@given(histories(), st.integers(500, 20_000))
@settings(max_examples=40)
def test_a_shortened_conversation_is_whole_in_itself_and_fits_where_its_last_step_leaves_room(
    history: list[WireMessage], limit: int
) -> None:
    after = planned(history, WHOLE, limit)
    sent = applied(history, after)
    check_pairs(sent)
    assert sent[0] == SYSTEM
    prompt = next(message for message in reversed(history) if message["role"] == "user")
    assert any(str(message["content"]).startswith(prompt["content"]) for message in sent if message["role"] == "user")
    assert [message["role"] for message in sent[1:2]] == ["user"]
    last = last_step(history)
    kept = sent[len(sent) - (len(history) - last) :]
    assert [message["role"] for message in kept] == [message["role"] for message in history[last:]]
    if after.shortened < last and after.summarised + 1 < last:
        assert kept == history[last:]
    spoken = [message for message in history[last:] if message["role"] != "tool"]
    room = summary_tokens(limit) + 120 * (len(history) - last)
    alone = sum(map(tokens_of, spoken)) + tokens_of(prompt) + room
    assert sum(map(tokens_of, sent[1:])) <= 1.05 * max(limit, alone)
