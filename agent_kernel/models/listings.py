"""Reads what services say of their models, in the shapes in which they say it.

OpenAI and most others list names alone. vLLM, Groq, Mistral, OpenRouter and Anthropic say more in the same list; Ollama
and LM Studio have lists of their own beside it.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from agent_kernel.models.known import NOTHING_TOLD, Told, answers_prompts

LONGEST_NAME = 200
_LONGEST_CONTEXT = 1_000_000_000
_CONTEXTS = ("max_model_len", "context_window", "context_length", "max_input_tokens", "loaded_context_length")
"""vLLM; Groq; OpenRouter and Together; Anthropic; LM Studio, of a model that is loaded."""
_NO_TALKERS = frozenset({"embedding", "embeddings", "image", "audio", "moderation", "rerank", "transcribe", "video"})
_NUM_CTX = re.compile(r"(?m)^num_ctx\s+(\d+)\s*$")


def rows_of(answer: Any) -> list[dict[str, Any]]:
    """The models of a list, whatever the list is called."""
    if isinstance(answer, dict):
        answer = answer.get("data") or answer.get("models")
    return [row for row in answer if isinstance(row, dict)] if isinstance(answer, list) else []


def read_rows(rows: list[dict[str, Any]]) -> Iterator[tuple[str, Told]]:
    """The models that answer prompts, each once."""
    seen: set[str] = set()
    for row in rows:
        name = _name(row)
        if name and name not in seen and _answers(name, row):
            seen.add(name)
            yield name, _told(row)


def read_ollama(shown: Any, running: Any) -> Told:
    """What Ollama's `/api/show` says of a model, and `/api/ps`, where the model is loaded. How long the context is says
    only the latter, or a `num_ctx` of the model's own: what the model could take is not what Ollama gives it."""
    if not isinstance(shown, dict):
        return NOTHING_TOLD
    abilities = _words(shown.get("capabilities"))
    parameters = shown.get("parameters")
    own = _NUM_CTX.search(parameters) if isinstance(parameters, str) else None
    context = _count(running.get("context_length")) if isinstance(running, dict) else None
    return Told(
        images="vision" in abilities if abilities else None,
        tools="tools" in abilities if abilities else None,
        context_tokens=context or (_count(int(own[1])) if own else None),
    )


def _name(row: Mapping[str, Any]) -> str:
    name = row.get("id") or row.get("name") or row.get("key")
    if not isinstance(name, str) or len(name) > LONGEST_NAME or not name.isprintable() or " " in name:
        return ""
    return name.removeprefix("models/")  # as Gemini's compatible list has them


def _answers(name: str, row: Mapping[str, Any]) -> bool:
    if str(row.get("type", "")).lower() in _NO_TALKERS or row.get("lifecycle") == "retired":
        return False
    written = _part(row, "architecture").get("output_modalities")
    return answers_prompts(name) and (not isinstance(written, list) or "text" in written)


def _told(row: Mapping[str, Any]) -> Told:
    contexts = [_count(row.get(field)) for field in _CONTEXTS]
    if "state" not in row:  # LM Studio says what the model could take, Mistral what it does
        contexts.append(_count(row.get("max_context_length")))
    contexts.append(_count(_part(row, "top_provider").get("context_length")))
    known = [context for context in contexts if context is not None]
    return Told(images=_images(row), tools=_tools(row), context_tokens=min(known) if known else None)


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
