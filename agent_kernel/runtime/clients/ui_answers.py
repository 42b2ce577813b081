"""A conversation's events as the AI SDK's UI messages: chunks while they stream, and whole messages.

Only chunks that versions 6 and 7 both read are made. A message of the user begins an answer, which is one message with
a step for each turn of the model, until the user's next message. Whole messages are folded from the same chunks, so
what a page gets while it listens and what it gets after a reload have the same ids and parts.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal

import orjson

from agent_kernel.runtime.clients.ui_outputs import OUTPUT_CHARACTERS, RICH_CHARACTERS, add_output, bounded

Chunk = dict[str, Any]

IMAGE_CHARACTERS = 2_000_000
"""A picture that is longer than this, in base64, is left out."""
IMAGES = 8
"""The most pictures of one call."""
PRELIMINARY_SECONDS = 0.25
"""The shortest time between two preliminary outputs of a call."""

_STOPPED = "The run was stopped."
_UNSAID = "This message was taken back."
_FINISH = {"stop": "stop", "length": "length", "content_filter": "content-filter"}
_PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")

CallStage = Literal["writing", "proposed", "asked", "approved", "executing", "ended"]


@dataclass(slots=True)
class StreamedCall:
    """A call, as far as events have told of it."""

    name: str
    step: int
    stage: CallStage = "writing"
    tool_input: str | None = None
    approval_id: str | None = None
    for_page: bool = False
    unknown: bool = False
    """Whether its outcome is unknown, and no person has answered."""
    outputs: list[dict[str, Any]] = field(default_factory=list)
    images: int = 0
    shown_at: float = 0.0
    """When its last preliminary output was sent."""

    @property
    def waits(self) -> bool:
        return self.stage == "asked" or (self.stage == "executing" and self.for_page) or self.unknown


@dataclass(frozen=True, slots=True)
class Piece:
    """A chunk of an answer, and what it is about."""

    chunk: Chunk
    step: int
    """The number of its step, from 1; 0 for what belongs to the whole message."""
    call: str | None = None
    is_news: bool = False
    """Whether it tells something new of a call that a page knows already."""
    unsaid: str | None = None
    """The id of a message of the model that was taken back: its text is no longer part of the answer."""


class Answer:
    """The answer to one message of the user."""

    def __init__(self, prompt_id: str, run_id: str | None, conversation_id: str, page_tools: Collection[str]) -> None:
        self.prompt_id = prompt_id
        self.run_id = run_id
        self.message_id = answer_id(prompt_id)
        self.calls: dict[str, StreamedCall] = {}
        self.over = False
        self.finish: Chunk | None = None
        """How it ended: a `finish`, `abort` or `error` chunk."""
        self.model_failed = False
        """Whether it ended because the model failed, so that the run can be tried again."""
        self.tried_again = False
        """Whether its run goes on, or has gone on, after it had ended."""
        self.paused = False
        self._pause_id = ""
        self._delay: Chunk | None = None
        """What is shown of a service that is asked again, while it is."""
        self._notices = 0
        """How many of the run's notices the page has."""
        self._page_tools = page_tools
        self._step = 0
        self._writing = False
        """Whether the model writes the step's turn; its end is the turn's usage."""
        self._text: tuple[str, str] | None = None
        """Kind and id of the part that is being written."""
        self._parts = 0
        self._streamed: dict[str, int] = {}
        """The number of characters of each of the model's messages that were sent as deltas."""
        self._fallback = {"conversationId": conversation_id, "runId": run_id}

    @property
    def first(self) -> Piece:
        return Piece(self.start, 0)

    @property
    def start(self) -> Chunk:
        return {"type": "start", "messageId": self.message_id, "messageMetadata": self._fallback}

    @property
    def steps(self) -> int:
        return self._step

    @property
    def waits(self) -> bool:
        """Whether nothing goes on until a person does something."""
        if self.over:
            return False
        if self.paused:
            return True
        open_calls = [call for call in self.calls.values() if call.stage != "ended" or call.unknown]
        return not self._writing and bool(open_calls) and all(call.waits for call in open_calls)

    def closing(self) -> Iterator[Chunk]:
        """The chunks that end a response: as the answer has ended, or for now."""
        if self._text is not None:
            yield _end_of(*self._text)
        if self._step:
            yield {"type": "finish-step"}
        if self.finish is not None:
            yield self.finish
        else:
            yield {"type": "finish", "finishReason": "tool-calls" if self.waits else "other"}

    def preliminary(self) -> list[Piece]:
        """What the calls that run have shown so far."""
        running = [(name, call) for name, call in self.calls.items() if call.stage == "executing" and call.outputs]
        return [self._preliminary(name, call) for name, call in running]

    # Events.

    def take(self, event: dict[str, Any], *, live: bool) -> list[Piece]:
        """The pieces that an event adds. `live`: somebody watches, so that what a call shows is of interest before it
        has ended."""
        if event["type"] == "tool_output":
            return self._on_output(event, live=live)
        handle = self._handlers.get(event["type"])
        return handle(event) if handle is not None else []

    @property
    def _handlers(self) -> dict[str, Callable[[dict[str, Any]], list[Piece]]]:
        return {
            "token": self._on_text,
            "reasoning": self._on_text,
            "message": self._on_message,
            "tool_state": self._on_tool_state,
            "approval_request": self._on_request,
            "approval_response": self._on_decision,
            "tool_start": self._on_start,
            "tool_complete": self._on_outcome,
            "tool_answered": self._on_unknown_answered,
            "usage": self._on_usage,
            "run": self._on_run,
            "complete": self._on_complete,
        }

    def _on_text(self, event: dict[str, Any]) -> list[Piece]:
        kind = "text" if event["type"] == "token" else "reasoning"
        message_id = event["message_id"]
        pieces = self._begin_turn()
        if self._text is None or self._text[0] != kind or not self._text[1].startswith(f"{message_id}-"):
            pieces += self._end_text()
            self._parts += 1
            self._text = (kind, f"{message_id}-{self._parts}")
            pieces.append(Piece({"type": f"{kind}-start", "id": self._text[1]}, self._step))
        if kind == "text":
            self._streamed[message_id] = self._streamed.get(message_id, 0) + len(event["content"])
        delta = {"type": f"{kind}-delta", "id": self._text[1], "delta": event["content"]}
        return [*pieces, Piece(delta, self._step)]

    def _on_message(self, event: dict[str, Any]) -> list[Piece]:
        """A whole message of the model. An empty one takes back what was streamed of it."""
        if event["role"] != "assistant":
            self._writing = False  # a person's message begins another turn
            return self._end_text()
        message_id, streamed = event["message_id"], self._streamed.get(event["message_id"], 0)
        if not event["content"]:
            self._writing = False
            ended = self._end_text()
            return [*ended, Piece(_data_chunk("notice", message_id, {"text": _UNSAID}), self._step, unsaid=message_id)]
        if streamed:
            return self._end_text()
        pieces = self._on_text({**event, "type": "token"})
        return [*pieces, *self._end_text()]

    def _on_tool_state(self, event: dict[str, Any]) -> list[Piece]:
        name, tool_call_id = event["tool_name"], event["tool_call_id"]
        if event["state"] != "proposed":
            return []
        pieces: list[Piece] = []
        if tool_call_id not in self.calls:
            pieces = [*self._begin_turn(), *self._end_text()]
            self.calls[tool_call_id] = StreamedCall(name, self._step, for_page=name in self._page_tools)
            begin = {"type": "tool-input-start", "toolCallId": tool_call_id, "toolName": name}
            pieces.append(self._of(tool_call_id, begin))
        if event.get("tool_input") is not None:
            self.calls[tool_call_id].stage = "proposed"
            pieces += self._input(tool_call_id, event["tool_input"])
        return pieces

    def _on_request(self, event: dict[str, Any]) -> list[Piece]:
        pieces = self._known(event)
        call = self._call(event)
        call.stage, call.approval_id = "asked", event["approval_id"]
        pieces += self._input(event["tool_call_id"], event["tool_input"])
        ask = {
            "type": "tool-approval-request",
            "approvalId": event["approval_id"],
            "toolCallId": event["tool_call_id"],
        }
        shown = {
            "approvalId": event["approval_id"],
            "warnings": event.get("warnings", []),
            "preview": event.get("preview"),
            "expiresAt": event.get("expires_at"),
        }
        return [
            *pieces,
            self._data("approval", event["tool_call_id"], shown, event),
            self._of(event["tool_call_id"], ask),
        ]

    def _on_decision(self, event: dict[str, Any]) -> list[Piece]:
        pieces = self._known(event)
        call = self._call(event)
        call.approval_id = event["approval_id"]
        if call.stage != "ended":
            call.stage = "approved"
        if event["approved"] and event["by"] == "policy":
            return pieces
        told = {name: event.get(name) for name in ("approved", "reason", "edited", "by")}
        decision = {"approvalId": event["approval_id"], **told, "decidedBy": event.get("decided_by")}
        return [*pieces, self._data("decision", event["tool_call_id"], decision, event)]

    def _on_start(self, event: dict[str, Any]) -> list[Piece]:
        pieces = self._known(event)
        self._call(event).stage = "executing"
        return [*pieces, *self._input(event["tool_call_id"], event["tool_input"])]

    def _on_output(self, event: dict[str, Any], *, live: bool) -> list[Piece]:
        call, tool_call_id, output = self._call(event), event["tool_call_id"], event["output"]
        if call.stage == "ended":
            return []  # a thread that the call has left behind
        add_output(call.outputs, output)
        pieces = []
        for media_type in _PICTURES:
            content = output.get("data", {}).get(media_type)
            if isinstance(content, str) and len(content) <= IMAGE_CHARACTERS and call.images < IMAGES:
                call.images += 1
                url = f"data:{media_type};base64,{''.join(content.split())}"
                pieces.append(self._of(tool_call_id, {"type": "file", "mediaType": media_type, "url": url}))
                break
        now = datetime.fromisoformat(event["timestamp"]).timestamp()
        if live and now - call.shown_at >= PRELIMINARY_SECONDS:
            call.shown_at = now
            pieces.append(self._preliminary(tool_call_id, call))
        return pieces

    def _preliminary(self, tool_call_id: str, call: StreamedCall) -> Piece:
        output = {"text": "", "outputs": bounded(call.outputs, RICH_CHARACTERS)}
        shown = {"type": "tool-output-available", "toolCallId": tool_call_id, "output": output, "preliminary": True}
        return self._of(tool_call_id, shown)

    def _on_outcome(self, event: dict[str, Any]) -> list[Piece]:
        tool_call_id = event["tool_call_id"]
        if tool_call_id not in self.calls and not event["tool_name"]:
            return []  # a call that the model did not finish writing, of which nothing was shown
        pieces = self._known(event)
        call = self._call(event)
        if call.tool_input is None:
            pieces += self._input(tool_call_id, "{}")
        call.stage, call.unknown = "ended", event["state"] == "unknown"
        outcome: Chunk = {"toolCallId": tool_call_id}
        if event["state"] == "success":
            outcome |= {"type": "tool-output-available", "output": self._output(call, event["tool_result"])}
        elif event["state"] == "denied":
            outcome["type"] = "tool-output-denied"
        else:
            outcome |= {"type": "tool-output-error", "errorText": event["tool_result"]}
        call.outputs = []
        pieces.append(self._of(tool_call_id, outcome))
        if not self._writing and all(one.stage == "ended" for one in self.calls.values()):
            pieces += self._ask_about_unknown()
        return pieces

    def _ask_about_unknown(self) -> list[Piece]:
        """The questions about calls whose outcome nobody knows, once nothing else of their step is open."""
        unknown = [(name, call) for name, call in self.calls.items() if call.unknown]
        pieces = self._aside() if unknown else []
        for tool_call_id, call in unknown:
            named = {"toolCallId": tool_call_id, "toolName": call.name, "approvalId": call.approval_id}
            asked = {**named, "answers": ["continue", "retry"]}
            pieces.append(Piece(_data_chunk("unknown-outcome", f"unknown-outcome-{tool_call_id}", asked), self._step))
        return pieces

    def _output(self, call: StreamedCall, text: str) -> Any:
        if not call.for_page:
            return {"text": text, "outputs": bounded(call.outputs, OUTPUT_CHARACTERS)}
        try:
            value = orjson.loads(text)
        except ValueError:
            return text
        return value if isinstance(value, dict | list) else text

    def _on_unknown_answered(self, event: dict[str, Any]) -> list[Piece]:
        self._call(event).unknown = False
        return [self._data("unknown-outcome", event["tool_call_id"], {"answer": event["answer"]}, event)]

    def _on_usage(self, event: dict[str, Any]) -> list[Piece]:
        """The end of a turn that is not the last."""
        self._writing = False
        return [*self._end_text(), Piece(self._metadata(event["usage"]), self._step)]

    def _on_run(self, event: dict[str, Any]) -> list[Piece]:
        run = event["run"]
        if run["status"] == "running":
            self.tried_again |= self.model_failed
            self.over, self.finish, self.model_failed = False, None, False
        notices = run.get("notices", ())
        told_before, self._notices = self._notices, len(notices)
        pieces = [
            Piece(_data_chunk("notice", f"notice-{run['run_id']}-{number}", {"text": notice["content"]}), self._step)
            for number, notice in enumerate(notices[told_before:], told_before)
        ]
        pieces += self._delayed(run["run_id"], run.get("delay"))
        pause = run.get("paused")
        if pause is not None:
            self.paused = True
            told = {"pauseId": pause["pause_id"], "runId": run["run_id"], "reached": pause["reached"]}
            told |= {"of": pause.get("of", "run"), "repeated": pause.get("repeated", "")}
            told |= {"unpriced": pause.get("unpriced", False), "over": False}
            self._pause_id = f"pause-{pause['pause_id']}"
            return [*pieces, *self._aside(), Piece(_data_chunk("pause", self._pause_id, told), self._step)]
        if self.paused:
            self.paused = False
            ended = {"runId": run["run_id"], "over": True}
            pieces.append(Piece(_data_chunk("pause", self._pause_id, ended), self._step))
        return pieces

    def _delayed(self, run_id: str, delay: dict[str, Any] | None) -> list[Piece]:
        """The wait for the model's service: one part for each, which says when it is over."""
        before = self._delay
        if delay is not None:
            data_id = f"delay-{run_id}-{delay['since']}" if before is None else before["id"]
            self._delay = _data_chunk("delay", data_id, {"runId": run_id, **delay, "over": False})
            return [] if self._delay == before else [Piece(self._delay, self._step)]
        self._delay = None
        if before is None:
            return []
        return [Piece(_data_chunk("delay", before["id"], {"runId": run_id, "over": True}), self._step)]

    def _on_complete(self, event: dict[str, Any]) -> list[Piece]:
        self.over, self.paused, self._writing = True, False, False
        error = event.get("error")
        self.model_failed = error is not None and error["code"] == "LLM_ERROR"
        if error is not None:
            self.finish = {"type": "error", "errorText": error["message"]}
        elif event["finish_reason"] == "cancelled":
            self.finish = {"type": "abort", "reason": _STOPPED}
        else:
            self.finish = {"type": "finish", "finishReason": _FINISH.get(event["finish_reason"], "other")}
        pieces = [*self._end_text(), *self._aside()]
        if self.finish["type"] != "finish":
            text = self.finish.get("errorText", _STOPPED)
            pieces.append(Piece(_data_chunk("notice", f"notice-{event['seq']}", {"text": text}), self._step))
        return [*pieces, Piece(self._metadata(event["usage"]), self._step)]

    # Pieces.

    def _begin_turn(self) -> list[Piece]:
        if self._writing:
            return []
        self._writing = True
        self._step += 1
        ended = [Piece({"type": "finish-step"}, self._step - 1)] if self._step > 1 else []
        return [*self._end_text(), *ended, Piece({"type": "start-step"}, self._step)]

    def _aside(self) -> list[Piece]:
        """Begins a step without calls, after one that has some: a page sends by itself when the calls of the last step
        have all ended, and would do so again and again while nothing goes on. A page takes the step from the chunk
        that follows."""
        if all(call.step != self._step for call in self.calls.values()):
            return []
        self._step += 1
        return [Piece({"type": "finish-step"}, self._step - 1), Piece({"type": "start-step"}, self._step)]

    def _end_text(self) -> list[Piece]:
        if self._text is None:
            return []
        ended, self._text = self._text, None
        return [Piece(_end_of(*ended), self._step)]

    def _known(self, event: dict[str, Any]) -> list[Piece]:
        """The beginning of a call of which nothing was shown so far."""
        if event["tool_call_id"] in self.calls:
            return []
        return self._on_tool_state(
            {
                "tool_call_id": event["tool_call_id"],
                "tool_name": event.get("tool_name", ""),
                "tool_input": event.get("tool_input"),
                "state": "proposed",
            }
        )

    def _call(self, event: dict[str, Any]) -> StreamedCall:
        return self.calls.setdefault(event["tool_call_id"], StreamedCall(event.get("tool_name", ""), self._step))

    def _input(self, tool_call_id: str, tool_input: str) -> list[Piece]:
        """The arguments, where they are new: an edited call shows what runs."""
        call = self.calls[tool_call_id]
        if call.tool_input == tool_input:
            return []
        edited, call.tool_input = call.tool_input is not None, tool_input
        available = {"type": "tool-input-available", "toolCallId": tool_call_id, "toolName": call.name}
        return [replace(self._of(tool_call_id, available | {"input": _loads(tool_input)}), is_news=edited)]

    def _of(self, tool_call_id: str, chunk: Chunk) -> Piece:
        return Piece(chunk, self.calls[tool_call_id].step, tool_call_id)

    def _data(self, kind: str, tool_call_id: str, data: dict[str, Any], event: dict[str, Any]) -> Piece:
        told = {"toolCallId": tool_call_id, "toolName": event.get("tool_name") or self._call(event).name, **data}
        return self._of(tool_call_id, _data_chunk(kind, f"{kind}-{tool_call_id}", told))

    def _metadata(self, usage: dict[str, Any]) -> Chunk:
        return {"type": "message-metadata", "messageMetadata": self._fallback | {"usage": usage}}


def answer_id(prompt_id: str) -> str:
    """The id of the message that answers a message of the user."""
    return f"{prompt_id}-answer"


def _end_of(kind: str, part_id: str) -> Chunk:
    return {"type": f"{kind}-end", "id": part_id}


def _data_chunk(kind: str, data_id: str, data: dict[str, Any]) -> Chunk:
    return {"type": f"data-{kind}", "id": data_id, "data": data}


def _loads(text: str) -> Any:
    try:
        return orjson.loads(text)
    except ValueError:
        return {"text": text}
