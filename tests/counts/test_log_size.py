"""What the log takes of a conversation as people have them: code that is asked about, and an answer that is typed."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

from agent_kernel.models.base import ModelItem, ModelRequest, ModelTurn, RequestedCall, TextDelta
from agent_kernel.protocol.commands import Decision
from agent_kernel.protocol.events import ApprovalRequestEvent, server_event_adapter
from agent_kernel.protocol.ids import new_run_id
from agent_kernel.runtime.conversation import Conversation
from agent_kernel.runtime.settings import RunSpec
from benchmarks.contenders.base import prose
from tests.core.runtime.runtime_fixtures import RUN_PYTHON, FunctionExecutor
from tests.counts.counting import CountedModel, CountedRuntime
from tests.waiting import until

TURNS = 12


class TypingModel(CountedModel):
    """Asks to run some code, then types its answer, a few words at a time: each once the last is in the log. Notes
    what was said."""

    raw = 0
    conversation: Conversation

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelItem]:
        if request.messages[-1]["role"] != "tool":
            code = json.dumps({"code": prose(600).replace(". ", "\n")})
            yield ModelTurn(content="", tool_calls=(RequestedCall("", "run_python", code),))
            return
        answer = prose(1_500)
        self.raw += sum(len(json.dumps(message)) for message in request.messages[-3:]) + len(answer)
        for start in range(0, len(answer), 30):
            logged = self.conversation.last_seq
            yield TextDelta(answer[start : start + 30])
            await until(lambda: self.conversation.last_seq > logged)  # noqa: B023  # it ends within the turn
        yield ModelTurn(content=answer)


async def test_code_that_was_asked_about_and_a_typed_answer_take_less_than_four_times_their_text(
    tmp_path: Path,
) -> None:
    model = TypingModel()
    counted = await CountedRuntime.open(tmp_path / "log.sqlite", model, token_flush_seconds=0.001)
    model.conversation = counted.conversation
    counted.executor = FunctionExecutor(act=lambda call, emit: prose(800))
    empty = await counted.bytes()
    for _ in range(TURNS):
        frames = counted.conversation.subscribe()
        spec = RunSpec(run_id=new_run_id(), prompt=prose(200), tools=(RUN_PYTHON,))
        handle = await counted.conversation.start_run(spec, counted.executor)
        async for frame in frames:
            event = server_event_adapter.validate_json(frame)
            if isinstance(event, ApprovalRequestEvent):
                await counted.conversation.route_decision(event.approval_id, Decision(approved=True))
                break
        frames.close()
        await handle.wait()
    events = counted.conversation.last_seq / TURNS
    assert events > 30, "the answer was not typed"
    assert await counted.bytes() - empty < 4 * model.raw, (
        "3.5 times: events are compressed by themselves, audit entries not at all"
    )
    await counted.runtime.aclose()
