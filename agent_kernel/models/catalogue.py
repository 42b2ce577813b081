"""Fetches, parses and keeps the list of models that an endpoint offers.

OpenAI and most others list names only. vLLM, llama.cpp, Groq, Mistral, OpenRouter and Anthropic say more in the same
list; Ollama and LM Studio have further lists of their own.
"""

import asyncio
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from agent_kernel.errors import AgentKernelError, ConfigurationError
from agent_kernel.models import prices
from agent_kernel.models.client import Client
from agent_kernel.models.known import NOTHING_KNOWN, Capabilities, answers_prompts, capabilities_by_name
from agent_kernel.models.redaction import scrub
from agent_kernel.models.service_faults import Asked, Fault, explain

ANSWER_SECONDS = 5.0
"""The time limit for an endpoint's list, with all requests that belong to it, in seconds."""
LEARN_SECONDS = 2.0
"""How long a run waits for the list of a near server before it begins without."""
KEPT_SECONDS, KEPT_FAULT_SECONDS = 60.0, 5.0
MOST_OFFERS = 1_000
MOST_BYTES = 8 << 20
"""The largest list in bytes. OpenRouter's, of all models there are, has one MiB."""
MOST_PROBED = 32
"""The most models of Ollama whose capabilities are requested, one request each."""
LONGEST_NAME = 200
_LONGEST_CONTEXT = 1_000_000_000
_CONTEXTS = ("max_model_len", "context_window", "context_length", "max_input_tokens", "loaded_context_length")
"""Names of the context size: of vLLM, Groq, OpenRouter and Together, Anthropic, and LM Studio for loaded models."""
_NO_TALKERS = frozenset({"embedding", "embeddings", "image", "audio", "moderation", "rerank", "transcribe", "video"})
_NUM_CTX = re.compile(r"(?m)^num_ctx\s+(\d+)\s*$")


@dataclass(frozen=True, slots=True)
class Listing:
    offers: Mapping[str, Capabilities] = field(default_factory=dict)
    """By the names that the service gives its models."""
    fault: str = ""
    """Why there are none, as a sentence."""
    loading: bool = False
    """Whether that is because the server is loading its model."""
    left_out: int = 0
    """How many models were dropped beyond `MOST_OFFERS`."""


class ModelList:
    """What one endpoint says of its models. For one event loop; `capabilities`, `names` and `with_tools` for any
    thread."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._asking = asyncio.Lock()
        self._latest = Listing()
        self._until = 0.0
        """When the latest is no longer current."""
        self._known: Mapping[str, Capabilities] = {}
        """From the latest that has no fault: it stays in use while the service is down."""
        self._probed = False
        """Whether it was asked once more after a turn."""
        self._fetches: set[asyncio.Task[Listing]] = set()

    async def listing(self, *, fresh: bool = False) -> Listing:
        """The list, fetched if the latest is old. Takes a few seconds at most, and raises nothing."""
        async with self._asking:  # a second caller finds the first one's result
            if fresh or time.monotonic() >= self._until:
                self._latest = await self._ask()
                self._until = time.monotonic() + (KEPT_FAULT_SECONDS if self._latest.fault else KEPT_SECONDS)
                if not self._latest.fault:
                    self._known = self._latest.offers
            return self._latest

    async def learn(self) -> None:
        """Fetch a near server's list, because nothing else knows its models' capabilities. Waits for the first one, a
        few seconds at most; a later one comes in the background. Raises nothing."""
        if not self.client.endpoint.is_near:
            return
        with suppress(AgentKernelError, OSError, ValueError):  # its first import may take longer than the list
            await self.client.open()
        fetching = self._fetch(fresh=False)
        if not self._known:
            await asyncio.wait({fetching}, timeout=LEARN_SECONDS)

    def probe(self, wire_name: str) -> None:
        """Fetch a near server's list once more, in the background, after a turn: Ollama and LM Studio tell a model's
        context once they have loaded it."""
        if self.client.endpoint.is_near and not self._probed and self.capabilities(wire_name).context_tokens is None:
            self._probed = True
            self._fetch(fresh=True)

    def _fetch(self, *, fresh: bool) -> asyncio.Task[Listing]:
        task = asyncio.get_running_loop().create_task(self.listing(fresh=fresh))
        self._fetches.add(task)
        task.add_done_callback(self._fetches.discard)
        return task

    async def aclose(self) -> None:
        """Cancel the requests in the background, and close the connections."""
        fetches = list(self._fetches)
        for task in fetches:
            task.cancel()
        await asyncio.gather(*fetches, return_exceptions=True)
        await self.client.aclose()

    def capabilities(self, wire_name: str) -> Capabilities:
        """A model's capabilities: from the configuration, else from the fetched list, else by its name."""
        return self._combined(wire_name, self._known.get(wire_name, NOTHING_KNOWN))

    def names(self) -> list[str]:
        """The endpoint's models, as far as they were fetched."""
        return list(self._known)

    def with_tools(self) -> list[str]:
        """The endpoint's models that take tools, as far as they were fetched."""
        return [name for name, capabilities in self._known.items() if capabilities.tools]

    def _combined(self, wire_name: str, listed: Capabilities) -> Capabilities:
        endpoint = self.client.endpoint
        return endpoint.capabilities.over(listed).over(capabilities_by_name(wire_name, endpoint.base_url))

    async def _ask(self) -> Listing:
        endpoint = self.client.endpoint
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                found = await self._offers()
        except TimeoutError:
            return Listing(fault=f"{endpoint.where} did not answer within {ANSWER_SECONDS:g} s.")
        except Fault as fault:
            if fault.status in (404, 405):
                fault = Fault("answer", f"it has no list of models ({fault.status})")
            fault.detail = scrub(fault.detail, self.client.secrets())
            error = explain(fault, Asked(endpoint, "its models", proxy=self.client.proxy), tries=1)
            return Listing(fault=str(error), loading=fault.loading)
        except ConfigurationError as wrong:
            return Listing(fault=str(wrong))
        await asyncio.to_thread(prices.load)
        offers = {name: self._combined(name, said) for name, said in found[:MOST_OFFERS]}
        return Listing(offers, left_out=len(found) - len(offers))

    async def _offers(self) -> list[tuple[str, Capabilities]]:
        """The models with their capabilities. Raises `Fault` and `ConfigurationError`."""
        anthropic = self.client.endpoint.provider == "Anthropic"
        rows = rows_of(await self.client.ask("models?limit=1000" if anthropic else "models", None, MOST_BYTES))
        found = list(read_rows(rows))
        return await self._of_near(rows, found) if self.client.endpoint.is_near else found

    async def _of_near(
        self, rows: list[dict[str, Any]], found: list[tuple[str, Capabilities]]
    ) -> list[tuple[str, Capabilities]]:
        """What a near server says on pages of its own. It counts as the program that runs the models only if such a
        page agrees with its list: a proxy may pass on the list of another server."""
        match [*{str(row.get("owned_by")) for row in rows}]:
            case ["llamacpp"]:
                own = read_props(await self._try("../props"))
                return [(name, said.over(own)) for name, said in found]
            case ["vllm"] if isinstance(await self._try("../version"), dict):
                return [(name, said.over(Capabilities(server="vLLM"))) for name, said in found]
        if any(said != NOTHING_KNOWN for _, said in found):
            return found
        studio = rows_of(await self._try("../api/v0/models"))
        if any("state" in row for row in studio):
            return [(name, said.over(Capabilities(server="LM Studio"))) for name, said in read_rows(studio)]
        return await self._of_ollama([name for name, _ in found]) or found

    async def _of_ollama(self, names: list[str]) -> list[tuple[str, Capabilities]]:
        """The capabilities from the further lists of Ollama; empty for other servers."""
        running = await self._try("../api/ps")
        if not isinstance(running, dict) or "models" not in running:
            return []
        loaded = {row.get("model") or row.get("name"): row for row in rows_of(running)}
        here = {_name(row) for row in rows_of(await self._try("../api/tags")) if not row.get("remote_host")}
        shown = names[:MOST_PROBED]
        answers = await asyncio.gather(*(self._try("../api/show", {"model": name}) for name in shown))
        said = {name: read_ollama(answer, loaded.get(name)) for name, answer in zip(shown, answers, strict=True)}
        own = Capabilities(server="Ollama")
        return [(name, said.get(name, NOTHING_KNOWN).over(own if name in here else NOTHING_KNOWN)) for name in names]

    async def _try(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """The answer, or `None` if the server refuses."""
        try:
            return await self.client.ask(path, body, MOST_BYTES)
        except Fault:
            return None


def rows_of(answer: Any) -> list[dict[str, Any]]:
    """The entries of a list, whatever name the list has in the answer."""
    if isinstance(answer, dict):
        answer = answer.get("data") or answer.get("models")
    return [row for row in answer if isinstance(row, dict)] if isinstance(answer, list) else []


def read_rows(rows: list[dict[str, Any]]) -> Iterator[tuple[str, Capabilities]]:
    """The models that answer prompts, each once, with their capabilities."""
    seen: set[str] = set()
    for row in rows:
        name = _name(row)
        if name and name not in seen and _answers(name, row):
            seen.add(name)
            yield name, _capabilities(row)


def read_ollama(shown: Any, running: Any) -> Capabilities:
    """The capabilities from Ollama's `/api/show` and, for a loaded model, `/api/ps`. The context size is that of
    `/api/ps` or the model's `num_ctx`; Ollama does not give a model the full context that it supports."""
    if not isinstance(shown, dict):
        return NOTHING_KNOWN
    abilities = _words(shown.get("capabilities"))
    parameters = shown.get("parameters")
    own = _NUM_CTX.search(parameters) if isinstance(parameters, str) else None
    context = _count(running.get("context_length")) if isinstance(running, dict) else None
    return Capabilities(
        images="vision" in abilities if abilities else None,
        tools="tools" in abilities if abilities else None,
        context_tokens=context or (_count(int(own[1])) if own else None),
    )


def read_props(props: Any) -> Capabilities:
    """What llama.cpp's `/props` says. Its context size is that of one slot, as the server was started. (`n_ctx_train`,
    which the list has too, is that with which the model was trained.) It leaves the tools out of a request without a
    word if the model's template takes none."""
    settings = props.get("default_generation_settings") if isinstance(props, dict) else None
    if not isinstance(settings, dict):
        return NOTHING_KNOWN
    tools = _part(props, "chat_template_caps").get("supports_tools")
    return Capabilities(
        tools=tools if isinstance(tools, bool) else None,
        context_tokens=_count(settings.get("n_ctx")),
        server="llama.cpp",
    )


def _name(row: Mapping[str, Any]) -> str:
    name = row.get("id") or row.get("name") or row.get("key")
    if not isinstance(name, str) or len(name) > LONGEST_NAME or not name.isprintable() or " " in name:
        return ""
    return name.removeprefix("models/")  # Gemini's prefix


def _answers(name: str, row: Mapping[str, Any]) -> bool:
    if str(row.get("type", "")).lower() in _NO_TALKERS or row.get("lifecycle") == "retired":
        return False
    written = _part(row, "architecture").get("output_modalities")
    return answers_prompts(name) and (not isinstance(written, list) or "text" in written)


def _capabilities(row: Mapping[str, Any]) -> Capabilities:
    contexts = [_count(row.get(field)) for field in _CONTEXTS]
    if "state" not in row:  # Mistral's is the actual size; LM Studio's, with `state`, the largest possible one
        contexts.append(_count(row.get("max_context_length")))
    contexts.append(_count(_part(row, "top_provider").get("context_length")))
    contexts.append(_count(_part(row, "meta").get("n_ctx")))  # llama.cpp
    known = [context for context in contexts if context is not None]
    return Capabilities(images=_images(row), tools=_tools(row), context_tokens=min(known) if known else None)


def _images(row: Mapping[str, Any]) -> bool | None:
    read = _part(row, "architecture").get("input_modalities")
    if isinstance(read, list):
        return "image" in read
    abilities = row.get("capabilities")
    if isinstance(abilities, dict):
        taken = abilities.get("vision", abilities.get("image_input"))
        taken = taken.get("supported") if isinstance(taken, dict) else taken
        return taken if isinstance(taken, bool) else None
    if row.get("type") in ("vlm", "llm") and "state" in row:
        return bool(row["type"] == "vlm")
    return True if {"vision", "multimodal"} & _words(abilities) else None


def _tools(row: Mapping[str, Any]) -> bool | None:
    taken = row.get("supported_parameters")
    if isinstance(taken, list):
        return "tools" in taken
    abilities = row.get("capabilities")
    if isinstance(abilities, dict):
        able = abilities.get("function_calling", abilities.get("trained_for_tool_use"))
        return able if isinstance(able, bool) else None
    return True if {"tools", "tool_use"} & _words(abilities) else None


def _words(value: Any) -> set[str]:
    return {word for word in value if isinstance(word, str)} if isinstance(value, list) else set()


def _part(row: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = row.get(name)
    return part if isinstance(part, dict) else {}


def _count(value: Any) -> int | None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and 0 < value <= _LONGEST_CONTEXT else None
