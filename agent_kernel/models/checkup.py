"""Checks each endpoint for `agent-kernel doctor`: requests one tool call, and reports what is wrong and what to set.

It costs a few tokens for each endpoint: the answer is abandoned as soon as the call, or its absence, is clear.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from operator import attrgetter
from typing import Literal

from agent_kernel.errors import AgentKernelError
from agent_kernel.models.base import Delay, ModelRequest, ModelTurn, Notice, ToolCallDelta, facts_of
from agent_kernel.models.endpoints import BrokenEndpoint, Endpoint
from agent_kernel.models.length import LARGER
from agent_kernel.models.no_answer import no_answer
from agent_kernel.models.resolver import ModelResolver
from agent_kernel.models.retry_policy import RetryPolicy
from agent_kernel.models.service_faults import ASK_THE_DOCTOR
from agent_kernel.own_thread import in_own_thread
from agent_kernel.protocol.lists import EndpointView

ANSWER_SECONDS = 60.0
"""The time limit in seconds. A local server may have to load the model first."""
SHORTEST_CONTEXT = 16_384
"""The smallest useful context in tokens. Instructions and tools take about 2,000, results a multiple of that."""
_PROMPT = "Call the tool `ready` now. Say nothing."
_READY = {
    "type": "function",
    "function": {
        "name": "ready",
        "description": "Say that you are ready.",
        "parameters": {"type": "object", "properties": {}},
    },
}


@dataclass(frozen=True, slots=True)
class Finding:
    mark: Literal["ok", "note", "MEND"]
    """`MEND` means that Agent Kernel does not work until the advice is followed."""
    text: str
    advice: str = ""


async def check_up(resolver: ModelResolver, *, ask: bool, tell: Callable[[str], None]) -> list[Finding]:
    """Findings on each endpoint and on the default model. Without `ask`, no requests are made. `tell` is told of each
    wait for a service."""
    findings: list[Finding] = []
    if resolver.default:
        findings.append(Finding("ok", f"The default model is {resolver.default}. {resolver.default_reason}"))
    endpoints = [one for one in resolver.endpoints.values() if isinstance(one, Endpoint)]
    broken = [Finding("MEND", one.fault) for one in resolver.endpoints.values() if isinstance(one, BrokenEndpoint)]
    if not ask:
        return [
            *findings,
            *(Finding("note", f"The endpoint {one.name!r} was not asked (--offline).") for one in endpoints),
            *broken,
        ]
    views = {view.name: view for view in await _listed(resolver, tell)}
    parts = await asyncio.gather(*(_examine(resolver, endpoint, views[endpoint.name], tell) for endpoint in endpoints))
    return [*findings, *(finding for part in parts for finding in part), *broken]


async def _listed(resolver: ModelResolver, tell: Callable[[str], None]) -> Sequence[EndpointView]:
    """The lists of all endpoints. A server that is loading its model is waited for, as it is for an answer."""
    policy = RetryPolicy()
    until = resolver.clock.now() + policy.loading_seconds
    views = (await resolver.listed()).endpoints
    for view in filter(attrgetter("loading"), views):
        tell(f"{view.name}: {view.error} It is waited for.")
    while any(view.loading for view in views) and resolver.clock.now() < until:
        await resolver.clock.sleep(policy.loading_pause)
        views = (await resolver.listed(fresh=True)).endpoints
    return views


async def _examine(
    resolver: ModelResolver, endpoint: Endpoint, view: EndpointView, tell: Callable[[str], None]
) -> list[Finding]:
    name = _model_to_ask(resolver, endpoint, view)
    if name is None:
        if view.error:
            return [Finding("MEND", f"{endpoint.name}: {view.error.removesuffix(ASK_THE_DOCTOR)}")]
        return [Finding("note", f"{endpoint.name}: it lists no models to ask.", "Name one with AGENT_KERNEL_MODEL.")]
    findings = await _ask(resolver, endpoint.name, name, tell)
    return findings + await _look_at_context(resolver, endpoint, name)


def _model_to_ask(resolver: ModelResolver, endpoint: Endpoint, view: EndpointView) -> str | None:
    """The model to test: the default, else one that the configuration names, else one that takes tools, else any."""
    if resolver.default and resolver.endpoint_of(resolver.default) == endpoint:
        return resolver.default
    named = [model for model in (endpoint.default_model, *endpoint.models) if model and "*" not in model]
    if named:
        return f"{endpoint.name}/{named[0]}"
    able = sorted(view.models, key=lambda model: not model.tools)
    return able[0].name if able else None


async def _ask(resolver: ModelResolver, endpoint: str, name: str, tell: Callable[[str], None]) -> list[Finding]:
    """Make one request and read its answer up to a call."""
    notices: list[str] = []
    called = False
    request = ModelRequest(messages=({"role": "user", "content": _PROMPT},), tools=(_READY,))
    try:
        model = await in_own_thread(lambda: resolver.resolve(name))
        async with asyncio.timeout(ANSWER_SECONDS) as limit, aclosing(model.stream(request)) as items:  # type: ignore[type-var]  # a generator
            async for item in items:
                match item:
                    case Delay():  # what the service asks for, or loading the model, is none of its time
                        limit.reschedule(asyncio.get_running_loop().time() + item.seconds + ANSWER_SECONDS)
                        tell(f"{endpoint}: {item.cause} It is asked again in {item.seconds:.0f} s.")
                        notices.append(f"It had to be asked again. {item.cause}")
                    case Notice():
                        notices.append(item.content)
                    case ModelTurn() if (fault := no_answer(item, ("ready",), facts_of(model).server)) is not None:
                        raise fault
                    case ToolCallDelta() | ModelTurn(tool_calls=(_, *_)):
                        called = True
                        break
    except TimeoutError:
        return [Finding("MEND", f"{endpoint}: {name} did not answer within {ANSWER_SECONDS:g} s.")]
    except AgentKernelError as error:
        return [Finding("MEND", f"{endpoint}: {str(error).removesuffix(ASK_THE_DOCTOR)}")]
    if called:
        found = Finding("ok", f"{endpoint}: {name} answers and calls tools. It was asked once, for a few tokens.")
    else:
        advice = "Choose a model that takes tools: `%agent models` lists them."
        found = Finding("note", f"{endpoint}: {name} answers, but made no call of the tool it was given.", advice)
    return [found, *(Finding("note", f"{endpoint}: {notice}") for notice in dict.fromkeys(notices))]


async def _look_at_context(resolver: ModelResolver, endpoint: Endpoint, name: str) -> list[Finding]:
    """Check the context size, which local servers report only for a loaded model, as the model is by now."""
    if endpoint.provider is not None:
        return []
    await resolver.listed(fresh=True)
    facts = facts_of(resolver.resolve(name))
    if facts.context_tokens is None or facts.context_tokens >= SHORTEST_CONTEXT:
        return []
    size = f"the context of {name} has {facts.context_tokens:,} tokens"
    ways = [LARGER[facts.server]] if facts.server is not None else LARGER.values()
    advice = f"Give it more: {'; '.join(ways)}."
    return [Finding("note", f"{endpoint.name}: {size}. Longer prompts lose their tools.", advice)]
