"""Anthropic's Messages API: requests, and what to change when one is refused. Ollama, vLLM, LM Studio speak it too."""

import re
from dataclasses import replace
from typing import Any, Literal

from agent_kernel.models.anthropic_answer import MessagesReader
from agent_kernel.models.anthropic_messages import (
    build_messages,
    mark_for_cache,
    thinking_blocks,
    tools,
)
from agent_kernel.models.api import Amendment, Api
from agent_kernel.models.base import ModelRequest
from agent_kernel.models.provider_items import RefusedItems
from agent_kernel.models.service_faults import Fault
from agent_kernel.protocol.vocabulary import Effort

Thinking = Literal["adaptive", "budget", "none"]
"""How a model is asked to think: adaptively, with a budget of tokens, or not at all."""

_BUDGETS: dict[Effort, int] = {"low": 2_048, "medium": 8_192, "high": 16_384}
_KINDS: tuple[tuple[re.Pattern[str], Thinking, int], ...] = (
    (re.compile(r"claude-(?:[123]\b|v\d|instant)"), "none", 4_096),
    (re.compile(r"claude-(?:opus|sonnet|haiku)-4(?:$|[@:]|-20|[-.][015](?!\d))"), "budget", 32_000),
    (re.compile(r"claude-"), "adaptive", 64_000),
)
"""The kind of thinking that Anthropic's models take, and the longest answer in tokens, which a request has to name.
Models before 4.6 know neither adaptive thinking nor effort (platform.claude.com/docs/en/build-with-claude/thinking,
read in November 2026)."""
_OTHERS: tuple[Thinking, int] = ("none", 8_192)

_NO_EFFORT = "{} has no setting for effort, so it was asked without."
_NO_THOUGHTS = (
    "{} no longer takes back what it thought earlier in this conversation, because something before it has changed. "
    "It was asked without."
)

_BAD_THOUGHT = re.compile(r"signature|thinking`? blocks?\b.*(?:modified|match|remain)", re.DOTALL)
_TOO_MANY = re.compile(r"max_tokens: \d+ > (?P<most>\d+)|(?P<input>\d+) \+ \d+ > (?P<context>\d+)")
_FEWEST_TOKENS = 512


class MessagesApi(Api):
    name = "messages"
    path = "v1/messages"

    def __init__(self, wire_name: str, where: str) -> None:
        super().__init__(wire_name, where)
        kinds = ((thinking, tokens) for pattern, thinking, tokens in _KINDS if pattern.search(wire_name))
        self._thinking, self._most_tokens = next(kinds, _OTHERS)
        self._refused_thinking: set[Thinking] = set()
        self._takes_effort = True
        self._refused_thoughts = RefusedItems()

    def body(self, request: ModelRequest) -> dict[str, Any]:
        """The request body. Parts that change between requests are last, so that the service can cache the
        beginning."""
        system, messages = build_messages(request, self.origin, self._refused_thoughts)
        mark_for_cache(messages)
        return {
            "model": self.wire_name,
            "max_tokens": self._most_tokens,
            "stream": True,
            **self._thinking_fields(request.effort),
            **tools(request.tools, messages),
            **({"system": system} if system else {}),
            "messages": messages,
        }

    def reader(self) -> MessagesReader:
        return MessagesReader(self.origin)

    def amended(self, request: ModelRequest, fault: Fault) -> Amendment | None:
        """The request without the refused part: thinking that no longer fits the conversation, or a setting that the
        model does not have."""
        if fault.status not in (400, 422):
            return None
        said = fault.detail.lower()
        if _BAD_THOUGHT.search(said):
            return self._without_thoughts(request)
        if "max_tokens" in said:
            return self._shorter(request, said)
        if "thinking" in said:
            return self._thinking_otherwise(request, said)
        if request.effort is not None and self._takes_effort and ("effort" in said or "output_config" in said):
            self._takes_effort = False
            return Amendment(request, _NO_EFFORT.format(self.wire_name))
        return None

    def _thinking_fields(self, effort: Effort | None) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        if self._thinking == "adaptive":
            fields["thinking"] = {"type": "adaptive", "display": "summarized"}
        elif self._thinking == "budget" and effort is not None:
            fields["thinking"] = {"type": "enabled", "budget_tokens": _BUDGETS[effort]}
        if self._thinking != "budget" and effort is not None and self._takes_effort:
            fields["output_config"] = {"effort": effort}
        return fields

    def _without_thoughts(self, request: ModelRequest) -> Amendment | None:
        """Drop all thinking blocks, because dropping one invalidates those after it."""
        thoughts = thinking_blocks(request.messages, self.origin)
        sent = [block for block in thoughts if block not in self._refused_thoughts]
        if not sent:
            return None
        self._refused_thoughts.add(sent)
        return Amendment(request, _NO_THOUGHTS.format(self.wire_name))

    def _shorter(self, request: ModelRequest, said: str) -> Amendment | None:
        """Ask for the longest answer that the service names, or else for a quarter of the last length."""
        now = self._most_tokens
        most = now // 4
        if found := _TOO_MANY.search(said):
            most = int(found["most"] or int(found["context"]) - int(found["input"]))
        if not _FEWEST_TOKENS <= most < now:
            return None
        self._most_tokens = most
        return Amendment(request)

    def _thinking_otherwise(self, request: ModelRequest, said: str) -> Amendment | None:
        now = self._thinking
        if "expected `thinking`" in said:  # a step whose thinking was left out can't go on with a budget
            return Amendment(replace(request, effort=None)) if now == "budget" and request.effort is not None else None
        if "thinking" not in self._thinking_fields(request.effort):
            return None
        self._refused_thinking.add(now)
        other: Thinking = "budget" if now == "adaptive" else "adaptive"
        takes_other = "adaptive" in said and other not in self._refused_thinking
        self._thinking = other if takes_other else "none"
        ignored = request.effort is not None and not takes_other
        return Amendment(request, _NO_EFFORT.format(self.wire_name) if ignored else "")
