"""OpenTelemetry spans of runs, turns and calls, where a process has an exporter."""

from typing import Any

import pytest

from agent_kernel.models.base import ModelFacts
from agent_kernel.protocol.calls import Outcome
from agent_kernel.testing import ScriptedModel, call, calls, say
from tests.core.runtime.runtime_fixtures import FunctionExecutor, Stages

pytest.importorskip("opentelemetry.sdk")

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from agent_kernel.errors import ModelUnavailable

OPENAI = ModelFacts("gpt-5-2026", "https://api.openai.com/v1")


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    return exporter


def told(span: ReadableSpan) -> tuple[str, dict[str, Any]]:
    attributes = {name: value for name, value in (span.attributes or {}).items() if not name.endswith(".id")}
    assert span.name.startswith(f"{attributes.pop('gen_ai.operation.name')} ")
    return span.name, attributes


def usage(given: int, answered: int) -> dict[str, int]:
    counts = {"input": given, "cache_read.input": 0, "output": answered, "reasoning.output": 0}
    return {f"gen_ai.usage.{kind}_tokens": count for kind, count in counts.items()}


SERVICE = {
    "gen_ai.provider.name": "openai",
    "gen_ai.request.model": "gpt-5-2026",
    "server.address": "api.openai.com",
}


async def test_a_run_its_turns_and_its_calls_are_spans_of_one_trace(
    stages: Stages, exporter: InMemorySpanExporter
) -> None:
    turns = [calls(call("look"), usage=(100, 10)), say("The secret answer.", usage=(200, 20))]
    executor = FunctionExecutor(lambda call, emit: Outcome("error", "secret failure"))
    stage = await stages(ScriptedModel(turns, name="gpt-5", facts=OPENAI), executor=executor)
    with trace.get_tracer("the server").start_as_current_span("a request"):
        result = await stage.run("A secret prompt")
    *ours, request = sorted(exporter.get_finished_spans(), key=lambda span: span.name == "a request")
    ours.sort(key=lambda span: span.start_time or 0)
    assert [told(span) for span in ours] == [
        ("invoke_agent agent-kernel", {"gen_ai.agent.name": "agent-kernel"} | SERVICE | usage(300, 30)),
        ("chat gpt-5-2026", {"gen_ai.response.finish_reasons": ("stop",)} | SERVICE | usage(100, 10)),
        (
            "execute_tool look",
            {"gen_ai.tool.name": "look", "gen_ai.tool.type": "function", "error.type": "error"},
        ),
        ("chat gpt-5-2026", {"gen_ai.response.finish_reasons": ("stop",)} | SERVICE | usage(200, 20)),
    ]
    run, first, look, _ = ours
    assert run.parent is None, "a request that happened to start it is not its parent"
    assert {span.context.trace_id for span in ours} == {run.context.trace_id} != {request.context.trace_id}
    assert {span.parent.span_id for span in ours[1:] if span.parent} == {run.context.span_id}
    assert (run.attributes or {})["gen_ai.conversation.id"] == result.run.conversation_id
    assert (first.kind, look.kind, look.status.status_code) == (SpanKind.CLIENT, SpanKind.INTERNAL, StatusCode.ERROR)
    assert not [span for span in ours if "secret" in span.to_json()]


async def test_a_run_whose_model_fails_has_a_failed_span_without_the_message(
    stages: Stages, exporter: InMemorySpanExporter
) -> None:
    stage = await stages(ScriptedModel([ModelUnavailable("secret words of a service")]))
    assert (await stage.run()).run.status == "error"
    spans = {span.name: span for span in exporter.get_finished_spans()}
    assert (spans["invoke_agent agent-kernel"].attributes or {})["error.type"] == "LLM_ERROR"
    assert (spans["chat scripted"].attributes or {})["error.type"] == "ModelUnavailable"
    assert not [span for span in spans.values() if "secret" in span.to_json()]
