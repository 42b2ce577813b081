"""A conversation's events as the AI SDK's UI messages.

A message of the user begins an answer, which is one message with a step for each turn of the model, until the user's
next message. Events change the parts of the message, and a change of a part is sent as chunks, so what a page gets
while it listens and what it gets after a reload are the same. Only chunks that versions 6 and 7 both read are made.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

import orjson

from agent_kernel.runtime.clients.ui_outputs import OUTPUT_CHARACTERS, RICH_CHARACTERS, add_output, bounded

Chunk = dict[str, Any]
UIMessage = dict[str, Any]

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
_ENDED = ("output-available", "output-error", "output-denied")

CallStage = Literal["writing", "proposed", "asked", "approved", "executing", "ended"]


@dataclass(slots=True)
class StreamedCall:
    """A call, as far as events have told of it."""

    name: str
    step: int
    stage: CallStage = "writing"
    tool_input: str | None = None
    edited: bool = False
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
class _Part:
    part_id: str
    shown: dict[str, Any]
    """As the message has it."""
    step: int
    """The number of its step, from 1; 0 for what comes before the first."""
    call: str | None


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
        self._delay_id = ""
        """That of the part for a service that is asked again, while it is."""
        self._notices = 0
        """How many of the run's notices the page has."""
        self._page_tools = page_tools
        self._step = 0
        self._writing = False
        """Whether the model writes the step's turn; its end is the turn's usage."""
        self._text: tuple[str, str] | None = None
        """Kind and id of the part that is being written."""
        self._streamed: set[str] = set()
        """The ids of the model's messages of which text was sent."""
        self._metadata: dict[str, Any] = {"conversationId": conversation_id, "runId": run_id}
        self._parts: dict[tuple[str, str], _Part] = {}
        """By kind and id, in order."""
        self._new: list[Chunk] = []

    @property
    def start(self) -> Chunk:
        return {"type": "start", "messageId": self.message_id, "messageMetadata": self._metadata}

    @property
    def waits(self) -> bool:
        """Whether nothing goes on until a person does something."""
        if self.over:
            return False
        if self.paused:
            return True
        open_calls = [call for call in self.calls.values() if call.stage != "ended" or call.unknown]
        return not self._writing and bool(open_calls) and all(call.waits for call in open_calls)

    def message(self) -> UIMessage:
        parts = [_settled(part.shown) for part in self._parts.values() if part.shown.get("text") != ""]
        return {"id": self.message_id, "role": "assistant", "metadata": self._metadata, "parts": parts}

    def lacking(self, steps: int, states: Mapping[str, str]) -> list[Chunk]:
        """What a page lacks whose message has so many steps and these states of calls: of the steps that it has what is
        new of their calls, of later ones everything. And what calls that run have shown so far."""
        chunks: list[Chunk] = []
        for part in self._parts.values():
            shown, known = part.shown, None
            if part.step <= steps:
                if shown["type"] != "data-delay" and (part.call is None or states.get(part.call) in _ENDED):
                    continue
                if "toolCallId" in shown and part.call is not None and part.call in states:
                    state = "input-available" if shown["state"] in _ENDED else shown["state"]
                    known = shown | {"state": state} | ({"input": None} if self.calls[part.call].edited else {})
            if shown["type"] == "step-start" and part.step > steps + 1:
                chunks.append({"type": "finish-step"})
            if shown.get("text") != "":
                chunks += _changes(part.part_id, known, shown)
        running = [(name, call) for name, call in self.calls.items() if call.stage == "executing" and call.outputs]
        return [*chunks, *(_preliminary(name, call) for name, call in running)]

    def closing(self) -> Iterator[Chunk]:
        """The chunks that end a response: as the answer has ended, or for now."""
        if self._text is not None:
            kind, part_id = self._text
            yield {"type": f"{kind}-end", "id": part_id}
        if self._step:
            yield {"type": "finish-step"}
        if self.finish is not None:
            yield self.finish
        else:
            yield {"type": "finish", "finishReason": "tool-calls" if self.waits else "other"}

    # Events.

    def take(self, event: dict[str, Any], *, live: bool) -> list[Chunk]:
        """The chunks that an event adds. `live`: somebody watches, so that what a call shows is of interest before it
        has ended."""
        self._new = []
        if event["type"] == "tool_output":
            self._on_output(event, live=live)
        elif (handle := self._handlers.get(event["type"])) is not None:
            handle(event)
        return self._new

    @property
    def _handlers(self) -> dict[str, Callable[[dict[str, Any]], None]]:
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

    def _on_text(self, event: dict[str, Any]) -> None:
        kind, message_id = "text" if event["type"] == "token" else "reasoning", event["message_id"]
        self._begin_turn()
        if self._text is None or self._text[0] != kind or not self._text[1].startswith(f"{message_id}-"):
            self._end_text()
            self._text = (kind, f"{message_id}-{len(self._parts)}")
            self._set(*self._text, type=kind, text="", state="streaming")
        if kind == "text":
            self._streamed.add(message_id)
        self._set(*self._text, text=self._parts[self._text].shown["text"] + event["content"])

    def _on_message(self, event: dict[str, Any]) -> None:
        """A whole message of the model. An empty one takes back what was streamed of it."""
        message_id = event["message_id"]
        if event["role"] != "assistant" or not event["content"]:
            self._writing = False  # a person's message begins another turn
        elif message_id not in self._streamed:
            self._on_text({**event, "type": "token"})
        self._end_text()
        if event["role"] == "assistant" and not event["content"]:
            for (kind, part_id), part in self._parts.items():
                if kind in ("text", "reasoning") and part_id.startswith(f"{message_id}-"):
                    part.shown["text"] = ""
            self._data("notice", message_id, {"text": _UNSAID})

    def _on_tool_state(self, event: dict[str, Any]) -> None:
        if event["state"] == "proposed":
            self._begin_call(event)

    def _begin_call(self, event: dict[str, Any]) -> StreamedCall:
        """The call that an event is about, with its arguments where they are new: an edited call shows what runs."""
        name, tool_call_id = event.get("tool_name", ""), event["tool_call_id"]
        call = self.calls.get(tool_call_id)
        if call is None:
            self._begin_turn()
            self._end_text()
            call = self.calls[tool_call_id] = StreamedCall(name, self._step, for_page=name in self._page_tools)
            self._set_call(tool_call_id, type=f"tool-{name}", toolCallId=tool_call_id, state="input-streaming")
        tool_input = event.get("tool_input")
        if tool_input is not None and tool_input != call.tool_input:
            call.edited, call.tool_input = call.tool_input is not None, tool_input
            if not call.edited:
                call.stage = "proposed"
                self._set_call(tool_call_id, state="input-available")
            self._set_call(tool_call_id, input=_loads(tool_input, {"text": tool_input}))
        return call

    def _on_request(self, event: dict[str, Any]) -> None:
        call, tool_call_id, approval_id = self._begin_call(event), event["tool_call_id"], event["approval_id"]
        call.stage, call.approval_id = "asked", approval_id
        asked = {"warnings": event.get("warnings", []), "preview": event.get("preview")}
        self._data_of("approval", event, {"approvalId": approval_id, **asked, "expiresAt": event.get("expires_at")})
        self._set_call(tool_call_id, state="approval-requested", approval={"id": approval_id})

    def _on_decision(self, event: dict[str, Any]) -> None:
        call, tool_call_id = self._begin_call(event), event["tool_call_id"]
        call.approval_id = event["approval_id"]
        by_policy = event["approved"] and event["by"] == "policy"
        if call.stage != "ended":
            call.stage = "approved"
            reason = {"reason": event["reason"]} if event.get("reason") else {}
            approval = {"id": event["approval_id"], "approved": event["approved"], **reason}
            self._set_call(
                tool_call_id, approval=approval, state="input-available" if by_policy else "approval-responded"
            )
        if not by_policy:
            told = {name: event.get(name) for name in ("approved", "reason", "edited", "by")}
            decision = {"approvalId": event["approval_id"], **told, "decidedBy": event.get("decided_by")}
            self._data_of("decision", event, decision)

    def _on_start(self, event: dict[str, Any]) -> None:
        self._begin_call(event).stage = "executing"

    def _on_output(self, event: dict[str, Any], *, live: bool) -> None:
        tool_call_id, output = event["tool_call_id"], event["output"]
        call = self.calls.setdefault(tool_call_id, StreamedCall("", self._step))
        if call.stage == "ended":
            return  # a thread that the call has left behind
        add_output(call.outputs, output)
        for media_type in _PICTURES:
            content = output.get("data", {}).get(media_type)
            if isinstance(content, str) and len(content) <= IMAGE_CHARACTERS and call.images < IMAGES:
                call.images += 1
                picture = {"mediaType": media_type, "url": f"data:{media_type};base64,{''.join(content.split())}"}
                self._set("file", f"{tool_call_id}-{call.images}", tool_call_id, type="file", **picture)
                break
        now = datetime.fromisoformat(event["timestamp"]).timestamp()
        if live and now - call.shown_at >= PRELIMINARY_SECONDS:
            call.shown_at = now
            self._new.append(_preliminary(tool_call_id, call))

    def _on_outcome(self, event: dict[str, Any]) -> None:
        tool_call_id, text = event["tool_call_id"], event["tool_result"]
        if tool_call_id not in self.calls and not event["tool_name"]:
            return  # a call that the model did not finish writing, of which nothing was shown
        call = self._begin_call(event)
        if call.tool_input is None:
            self._begin_call(event | {"tool_input": "{}"})
        call.stage, call.unknown = "ended", event["state"] == "unknown"
        if event["state"] == "success":
            self._set_call(tool_call_id, state="output-available", output=_output(call, text))
        elif event["state"] == "denied":
            self._set_call(tool_call_id, state="output-denied")
        else:
            self._set_call(tool_call_id, state="output-error", errorText=text)
        call.outputs = []
        if not self._writing and all(one.stage == "ended" for one in self.calls.values()):
            self._ask_about_unknown()

    def _ask_about_unknown(self) -> None:
        """Ask about calls whose outcome nobody knows, once nothing else of their step is open."""
        unknown = [(name, call) for name, call in self.calls.items() if call.unknown]
        if unknown:
            self._aside()
        for tool_call_id, call in unknown:
            named = {"toolCallId": tool_call_id, "toolName": call.name, "approvalId": call.approval_id}
            self._data("unknown-outcome", f"unknown-outcome-{tool_call_id}", named | {"answers": ["continue", "retry"]})

    def _on_unknown_answered(self, event: dict[str, Any]) -> None:
        self._begin_call(event).unknown = False
        self._data_of("unknown-outcome", event, {"answer": event["answer"]})

    def _on_usage(self, event: dict[str, Any]) -> None:
        """The end of a turn that is not the last."""
        self._writing = False
        self._end_text()
        self._metadata = self._metadata | {"usage": event["usage"]}
        self._new.append({"type": "message-metadata", "messageMetadata": self._metadata})

    def _on_run(self, event: dict[str, Any]) -> None:
        run = event["run"]
        if run["status"] == "running":
            self.tried_again |= self.model_failed
            self.over, self.finish, self.model_failed = False, None, False
        notices = run.get("notices", ())
        told_before, self._notices = self._notices, len(notices)
        for number, notice in enumerate(notices[told_before:], told_before):
            self._data("notice", f"notice-{run['run_id']}-{number}", {"text": notice["content"]})
        self._on_delay(run["run_id"], run.get("delay"))
        pause = run.get("paused")
        if pause is not None:
            self.paused, self._pause_id = True, f"pause-{pause['pause_id']}"
            told = {"pauseId": pause["pause_id"], "runId": run["run_id"], "reached": pause["reached"]}
            told |= {"of": pause.get("of", "run"), "repeated": pause.get("repeated", "")}
            self._aside()
            self._data("pause", self._pause_id, told | {"unpriced": pause.get("unpriced", False), "over": False})
        elif self.paused:
            self.paused = False
            self._data("pause", self._pause_id, {"runId": run["run_id"], "over": True})

    def _on_delay(self, run_id: str, delay: dict[str, Any] | None) -> None:
        """The wait for the model's service: one part for each, which says when it is over."""
        if delay is not None:
            self._delay_id = self._delay_id or f"delay-{run_id}-{delay['since']}"
            self._data("delay", self._delay_id, {"runId": run_id, **delay, "over": False})
        elif self._delay_id:
            self._data("delay", self._delay_id, {"runId": run_id, "over": True})
            self._delay_id = ""

    def _on_complete(self, event: dict[str, Any]) -> None:
        self.over, self.paused = True, False
        error = event.get("error")
        self.model_failed = error is not None and error["code"] == "LLM_ERROR"
        self._end_text()
        self._aside()
        if error is None and event["finish_reason"] != "cancelled":
            self.finish = {"type": "finish", "finishReason": _FINISH.get(event["finish_reason"], "other")}
        else:
            text = error["message"] if error is not None else _STOPPED
            self.finish = {"type": "error", "errorText": text} if error else {"type": "abort", "reason": text}
            self._data("notice", f"notice-{event['seq']}", {"text": text})
        self._on_usage(event)

    # Parts.

    def _set(self, kind: str, part_id: str, call: str | None = None, **values: Any) -> None:
        """Change a part, or add it, and send what is new."""
        part, before = self._parts.get((kind, part_id)), None
        if part is None:
            step = self.calls[call].step if call is not None else self._step
            part = self._parts[kind, part_id] = _Part(part_id, {}, step, call)
        else:
            before = dict(part.shown)
        part.shown.update(values)
        self._new += _changes(part_id, before, part.shown)

    def _set_call(self, tool_call_id: str, **values: Any) -> None:
        self._set("tool", tool_call_id, tool_call_id, **values)

    def _data(self, kind: str, data_id: str, data: dict[str, Any], call: str | None = None) -> None:
        self._set("data", data_id, call, type=f"data-{kind}", id=data_id, data=data)

    def _data_of(self, kind: str, event: dict[str, Any], data: dict[str, Any]) -> None:
        tool_call_id = event["tool_call_id"]
        told = {"toolCallId": tool_call_id, "toolName": self.calls[tool_call_id].name, **data}
        self._data(kind, f"{kind}-{tool_call_id}", told, tool_call_id)

    def _begin_step(self) -> None:
        self._end_text()
        if self._step:
            self._new.append({"type": "finish-step"})
        self._step += 1
        self._set("step", str(self._step), type="step-start")

    def _begin_turn(self) -> None:
        if not self._writing:
            self._writing = True
            self._begin_step()

    def _aside(self) -> None:
        """Begins a step without calls, after one that has some: a page sends by itself when the calls of the last step
        have all ended, and would do so again and again while nothing goes on. A page takes the step from the chunk
        that follows."""
        if any(call.step == self._step for call in self.calls.values()):
            self._begin_step()

    def _end_text(self) -> None:
        if self._text is not None:
            self._set(*self._text, state="done")
            self._text = None


def answer_id(prompt_id: str) -> str:
    """The id of the message that answers a message of the user."""
    return f"{prompt_id}-answer"


def _changes(part_id: str, before: Mapping[str, Any] | None, part: Mapping[str, Any]) -> Iterator[Chunk]:
    """The chunks that make a part of what a page has of it."""
    kind = part["type"]
    if kind == "step-start":
        yield {"type": "start-step"}
    elif kind in ("text", "reasoning"):
        if before is None:
            yield {"type": f"{kind}-start", "id": part_id}
        if added := part["text"][len(before["text"]) if before is not None else 0 :]:
            yield {"type": f"{kind}-delta", "id": part_id, "delta": added}
        if part["state"] == "done":
            yield {"type": f"{kind}-end", "id": part_id}
    elif "toolCallId" in part:
        yield from _changes_of_call(before or {}, part)
    elif before != part:
        yield dict(part)


def _changes_of_call(before: Mapping[str, Any], part: Mapping[str, Any]) -> Iterator[Chunk]:
    call = {"toolCallId": part["toolCallId"]}
    name = {"toolName": part["type"].removeprefix("tool-")}
    if not before:
        yield {"type": "tool-input-start", **call, **name}
    if "input" in part and before.get("input") is not part["input"]:
        yield {"type": "tool-input-available", **call, **name, "input": part["input"]}
    if part["state"] == before.get("state"):
        return
    match part["state"]:
        case "approval-requested":
            yield {"type": "tool-approval-request", "approvalId": part["approval"]["id"], **call}
        case "output-available":
            yield {"type": "tool-output-available", **call, "output": part["output"]}
        case "output-error":
            yield {"type": "tool-output-error", **call, "errorText": part["errorText"]}
        case "output-denied":
            yield {"type": "tool-output-denied", **call}


def _settled(part: dict[str, Any]) -> dict[str, Any]:
    """A part with the approval that the package wants in a call's state."""
    if "toolCallId" not in part:
        return part
    approval = part.get("approval", {})
    rest = {name: value for name, value in part.items() if name != "approval"}
    if part["state"] == "output-denied":
        return rest | {"approval": {"id": part["toolCallId"], "approved": False, **approval}}
    has_approval = part["state"].startswith("approval-") or (part["state"] in _ENDED and approval.get("approved"))
    return part if has_approval else rest


def _preliminary(tool_call_id: str, call: StreamedCall) -> Chunk:
    output = {"text": "", "outputs": bounded(call.outputs, RICH_CHARACTERS)}
    return {"type": "tool-output-available", "toolCallId": tool_call_id, "output": output, "preliminary": True}


def _output(call: StreamedCall, text: str) -> Any:
    if not call.for_page:
        return {"text": text, "outputs": bounded(call.outputs, OUTPUT_CHARACTERS)}
    value = _loads(text, text)
    return value if isinstance(value, dict | list) else text


def _loads(text: str, otherwise: Any) -> Any:
    try:
        return orjson.loads(text)
    except ValueError:
        return otherwise
