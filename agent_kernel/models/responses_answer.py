"""Reads the answers of the Responses API: events about items, and at the end the response as a whole."""

import json
import re
from typing import Any

from agent_kernel.models.answer_reading import AnswerReader, as_text
from agent_kernel.models.base import ModelTurn, TokenUsage
from agent_kernel.models.no_answer import filtered, refused
from agent_kernel.models.provider_items import ProviderItems
from agent_kernel.models.responses_items import Outputs, PartKind, arguments_of
from agent_kernel.models.service_faults import Fault, error_object_fault, status_fault
from agent_kernel.models.usage import openai_usage
from agent_kernel.protocol.vocabulary import FinishReason

_RETRIED = {"server_error": 500, "internal_error": 500, "rate_limit_exceeded": 429, "vector_store_timeout": 504}
_OVERLOADED = frozenset({"server_is_overloaded", "overloaded", "overloaded_error", "slow_down"})
_REFUSED = re.compile(r"invalid|image|policy|mismatch|context_length|not_supported|unsupported|not_found")
_TEXTS: dict[str, PartKind] = {"response.output_text": "output_text", "response.refusal": "refusal"}
_REASONING: dict[str, PartKind] = {
    "response.reasoning_summary_text": "summary",
    "response.reasoning_text": "thought",
    "response.reasoning": "thought",
}
_LAST = ("response.completed", "response.incomplete", "response.failed", "response.done", "response.cancelled")


class ResponsesReader(AnswerReader):
    """Events of types that it does not know say nothing."""

    def __init__(self, origin: str) -> None:
        super().__init__()
        self._origin = origin
        self._outputs = Outputs(self._deltas)
        self._numbers: dict[int, int] = {}
        self._ended = False
        self._finish: FinishReason = "stop"
        self._usage = TokenUsage()

    @property
    def whole(self) -> bool:
        return self._ended

    def _add_event(self, event: dict[str, Any], raw: bytes) -> None:
        if not self._body.streamed:
            self._add_response(event, raw)
            return
        kind = event.get("type")
        if kind == "error" or (event.get("error") and not kind):
            raise _failure(event.get("error") or event)
        if not isinstance(kind, str) or self._is_repeated(event, raw):
            return
        if kind in _LAST:
            self._take_last(event, raw)
        elif kind == "response.output_item.added":
            self._outputs.begin(event["item"], event.get("output_index"))
        elif kind == "response.output_item.done":
            self._outputs.end(_exact(event["item"], raw, "item"), event.get("output_index"))
        else:
            subject, _, what = kind.rpartition(".")
            if what in ("delta", "done"):
                self._add_piece(subject, event, raw, last=what == "done")

    def _is_repeated(self, event: dict[str, Any], raw: bytes) -> bool:
        """Whether the event was repeated, by its sequence number, if the server sends one."""
        number = event.get("sequence_number")
        if not isinstance(number, int):
            return False
        counts = len(self._numbers) > 1
        if counts and self._numbers.get(number) == hash(raw):
            return True
        self._numbers[number] = hash(raw)
        return False

    def _add_piece(self, subject: str, event: dict[str, Any], raw: bytes, *, last: bool) -> None:
        outputs = self._outputs
        item_id, index = event.get("item_id"), event.get("output_index")
        if subject == "response.function_call_arguments":
            call = outputs.find("function_call", item_id, index)
            if last:
                call.spare_name = as_text(event.get("name"))
                call.whole_arguments = arguments_of(_exact(event, raw).get("arguments"))
            elif not (call.done or call.whole_arguments):
                call.arguments.append(self._deltas.size.take(as_text(event["delta"])))
        elif (kind := _TEXTS.get(subject)) is not None:
            item = outputs.find("message", item_id, index)
            if item.done:
                return
            part = outputs.part(outputs.text, item, kind, event.get("content_index"))
            if last:
                outputs.text.close(part, event.get("text" if kind == "output_text" else "refusal"))
            else:
                outputs.text.add(part, as_text(event["delta"]))
        elif (kind := _REASONING.get(subject)) is not None:
            self._add_reasoning(kind, event, last=last)

    def _add_reasoning(self, kind: PartKind, event: dict[str, Any], *, last: bool) -> None:
        outputs = self._outputs
        item = outputs.find("reasoning", event.get("item_id"), event.get("output_index"))
        if item.done or (item.parts and item.parts[0].kind != kind):
            return  # another form of the same reasoning
        part = outputs.part(
            outputs.reasoning, item, kind, event.get("summary_index" if kind == "summary" else "content_index")
        )
        if last:
            outputs.reasoning.close(part, event.get("text"))
        else:
            outputs.reasoning.add(part, as_text(event["delta"]))

    def _add_response(self, response: dict[str, Any], raw: bytes) -> None:
        """Read the body of a server that does not stream."""
        if response.get("error") and "output" not in response:
            raise _failure(response["error"])
        if response.get("object") == "error":
            raise _failure(response)
        if "output" not in response:
            raise Fault("address", "it answered with JSON that holds no output")
        self._take_last({"response": response}, raw)

    def _take_last(self, event: dict[str, Any], raw: bytes) -> None:
        response = event.get("response")
        if not isinstance(response, dict):
            response = {}
        status = response.get("status") or str(event.get("type", "")).rpartition(".")[2]
        if status == "failed" or response.get("error"):
            raise _failure(response.get("error") or response)
        if status in ("cancelled", "queued", "in_progress"):
            raise Fault("answer", f"the server ended the answer as {status}", retry=True)
        self._usage = openai_usage(response.get("usage"))
        if status == "incomplete":
            self._finish = _incomplete(response.get("incomplete_details"))
        output = response.get("output")
        if isinstance(output, list):
            self._outputs.reconcile(_exact(response, raw, "response").get("output", output))
        self._outputs.close()
        self._ended = self.done = True

    def _end(self) -> None:
        self._check_whole()
        self._outputs.close()

    def _check_whole(self) -> None:
        outputs = self._outputs
        if not self._ended:
            if not outputs.items:
                raise Fault("answer", "the server sent no answer", retry=True)
            unfinished = outputs.unfinished() or ("the answer" if not self.done or not outputs else None)
            if unfinished:
                how = "the server stopped" if self.done else "the connection ended"
                raise Fault("answer", f"{how} in the middle of {unfinished}", retry=True)
        broken = outputs.broken_call()
        if broken is None:
            return
        what = f"a call of {broken}" if broken else "a call"
        if self._finish == "length":
            raise Fault("answer", f"the answer reached its length limit in the middle of {what}")
        raise Fault("answer", f"the server stopped in the middle of {what}", retry=True)

    def _turn(self) -> ModelTurn:
        refusal = self._outputs.refusal
        content = "" if refusal else self._deltas.content
        items = () if refusal else self._outputs.provider_items(content)
        return ModelTurn(
            content=content,
            reasoning=self._deltas.reasoning,
            tool_calls=self._outputs.requested(),
            finish_reason=self._finish,
            failure=refused(refusal) if refusal else filtered() if self._finish == "content_filter" else "",
            usage=self._usage,
            provider=ProviderItems("responses", self._origin, items) if items else None,
        )


def _exact(value: dict[str, Any], raw: bytes, name: str = "") -> dict[str, Any]:
    """`value`, parsed again if a call's arguments are an object in it, because orjson would round big integers."""
    items = value.get("output", [value])
    arguments = [item.get("arguments") for item in items if isinstance(item, dict)] if isinstance(items, list) else []
    if not any(isinstance(one, dict) for one in arguments):
        return value
    event: dict[str, Any] = json.loads(raw)
    return event.get(name, event) if name else event


def _failure(error: Any) -> Fault:
    """The fault for an error of the service, from any event that carries one."""
    code = error.get("code") if isinstance(error, dict) else None
    if isinstance(error, dict) and error.get("type") == "error":  # the event's type, not an error code
        error = {name: value for name, value in error.items() if name != "type"}
    if not isinstance(code, str) or code.isdecimal():
        return error_object_fault(error)
    if code == "insufficient_quota":
        return status_fault(429, error)
    if code in _OVERLOADED:
        return status_fault(503, error)
    if code in _RETRIED:
        return status_fault(_RETRIED[code], error)
    if _REFUSED.search(code):
        return status_fault(400, error)
    return error_object_fault(error)


def _incomplete(details: Any) -> FinishReason:
    reason = details.get("reason") if isinstance(details, dict) else None
    match reason:
        case "content_filter":
            return "content_filter"
        case "steered":
            return "stop"
        case _:
            return "length"
