"""OpenTelemetry spans of a run, its turns and its calls, where the process has `opentelemetry` in use.

Nothing is imported for it: who sets an exporter up has imported the API, and without one there is nobody to tell. Names
are those of the GenAI semantic conventions. No prompt, argument, result or message of an error is in a span.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from agent_kernel.models.base import Model, ModelTurn, TokenUsage, facts_of
from agent_kernel.protocol.calls import Outcome
from agent_kernel.protocol.views import RunView, ToolCallView, Usage
from agent_kernel.version import __version__

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span

AGENT = "agent-kernel"
_ID_CHARACTERS = 100
Attributes = dict[str, str | int | float | Sequence[str]]
Operation = Literal["invoke_agent", "chat", "execute_tool"]
Note = Callable[[Attributes], None]
"""Adds attributes to a span; with `error.type`, the span has failed."""

_PROVIDERS = {
    "api.openai.com": "openai",
    "api.anthropic.com": "anthropic",
    "api.deepseek.com": "deepseek",
    "api.groq.com": "groq",
    "api.mistral.ai": "mistral_ai",
    "api.x.ai": "x_ai",
    "generativelanguage.googleapis.com": "gcp.gemini",
}
"""The conventions' names of services, by host; any other is named by its host."""


class Spans:
    """Of one run. Those of turns and calls are children of the run's."""

    def __init__(self) -> None:
        self._within: Context | None = None

    @contextmanager
    def run(self, run: RunView, model: Model) -> Iterator[Callable[[RunView], None]]:
        """Call what it yields with the run as it has ended."""
        known: Attributes = {
            "gen_ai.agent.name": AGENT,
            "gen_ai.conversation.id": run.conversation_id,
            **_of_model(model),
        }
        with self._span("invoke_agent", AGENT, known) as note:

            def ended(end: RunView) -> None:
                note(_of_usage(end.usage) | ({"error.type": end.error.code} if end.error is not None else {}))

            yield ended

    @contextmanager
    def turn(self, model: Model) -> Iterator[Callable[[ModelTurn], None]]:
        """Call what it yields with the model's answer."""
        with self._span("chat", _wire_name(model), _of_model(model), client=True) as note:
            yield lambda turn: note(_of_usage(turn.usage) | {"gen_ai.response.finish_reasons": [turn.finish_reason]})

    @contextmanager
    def call(self, call: ToolCallView) -> Iterator[Callable[[Outcome], None]]:
        """Call what it yields with the outcome."""
        known: Attributes = {
            "gen_ai.tool.name": call.tool_name,
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": call.tool_call_id[:_ID_CHARACTERS],
        }
        with self._span("execute_tool", call.tool_name, known) as note:
            yield lambda outcome: note({} if outcome.status == "success" else {"error.type": outcome.status})

    @contextmanager
    def _span(self, operation: Operation, subject: str, known: Attributes, *, client: bool = False) -> Iterator[Note]:
        trace = sys.modules.get("opentelemetry.trace")
        if trace is None:
            yield lambda _: None
            return
        from opentelemetry.context import Context
        from opentelemetry.trace import SpanKind, get_tracer, set_span_in_context

        within = self._within or Context()  # no other span of this process is the run's parent
        span = get_tracer("agent_kernel", __version__).start_span(
            f"{operation} {subject}",
            context=within,
            kind=SpanKind.CLIENT if client else SpanKind.INTERNAL,
            attributes={"gen_ai.operation.name": operation, **known},
        )
        if self._within is None:
            self._within = set_span_in_context(span, within)
        try:
            yield lambda more: _add(span, more)
        except BaseException as error:
            _add(span, {"error.type": type(error).__name__})
            raise
        finally:
            span.end()


def _add(span: "Span", more: Attributes) -> None:
    from opentelemetry.trace import StatusCode

    span.set_attributes(more)
    if "error.type" in more:
        span.set_status(StatusCode.ERROR)


def _wire_name(model: Model) -> str:
    return facts_of(model).wire_name or model.name


def _of_model(model: Model) -> Attributes:
    facts = facts_of(model)
    host = urlsplit(facts.base_url or "").hostname
    provider = facts.server.lower() if facts.server is not None else _PROVIDERS.get(host or "", host or AGENT)
    found: Attributes = {"gen_ai.provider.name": provider, "gen_ai.request.model": _wire_name(model)}
    return found | {"server.address": host} if host is not None else found


def _of_usage(usage: Usage | TokenUsage) -> Attributes:
    return {
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens,
    }
