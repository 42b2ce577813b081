"""Reads what a refusal says: JSON of many shapes, one within the other, and pages of proxies.

The shapes are those of OpenAI, Anthropic, Gemini (a list), OpenRouter (`metadata.raw`), LiteLLM, Mistral, Databricks
(JSON within `message`), Ollama, vLLM, FastAPI (`detail`, a list of faults) and Cloudflare (`errors`).
"""

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import orjson

MOST_CHARACTERS = 16_384
"""The most characters that are read of a page, and kept of a message."""
_DEEPEST = 8
"""How many objects within one another are read."""
_MOST_PARTS, _MOST_TEXTS = 40, 5
"""The most errors and texts that are read, and the most texts of one message."""
_TEXTS = ("message", "Message", "detail", "error_description", "error", "msg", "title", "reason")
_ENCLOSING = ("errors", "metadata", "raw", "external_model_error")
"""Further fields in which an upstream's error is."""
_READ_CHARACTERS = 10_000
"""As much of a refusal is searched for a wait."""
_IN_A_FIELD = re.compile(
    r"""(?i)\bretry_?(?:delay|after)(?:_seconds)?\\*['"]: ?\\*['"]?(\d{1,9}(?:\.\d{1,9})?)s?(?![\w.])"""
)
"""Google's `RetryInfo` (`"retryDelay": "24.5s"`), also where a proxy quotes it, and proxies' `retry_after`."""
_TIME = r"(\d{1,9}(?:\.\d{1,9})?) ?(ms|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hours?)(?![a-z])"
_IN_WORDS = re.compile(rf"(?i)\b(?:try again|retry) (?:in|after) (?:about )?((?:{_TIME} ?)+)")
"""OpenAI's and Groq's "Please try again in 7m12.5s", Azure's "Please retry after 26 seconds"."""
_ONE_TIME = re.compile(rf"(?i){_TIME}")
_PAGE = re.compile(r"(?i)<(?:!doctype|\?xml|html|head|body|title|center|h1|p|error)\b")
_EVENT = re.compile(r"(?:event|data|id|retry)?:")


@dataclass(frozen=True, slots=True)
class Refusal:
    detail: str
    """The service's words in one line; of a page its title and its first line."""
    codes: tuple[str, ...] = ()
    """The error's codes, such as `context_length_exceeded`, before its types, which say less."""
    param: str = ""
    """The field of the request that it is about, such as `reasoning.effort`."""
    structured: bool = False
    """Whether it is JSON, as a model's service writes its errors. Anything between may send a page or plain text."""


def read_refusal(body: Any) -> Refusal:
    """Read the body of a refusal, or an error object from a stream."""
    if isinstance(body, bytes):
        body = opened(body.decode("utf-8", "replace"))
    parts = list(islice(_parts(body, _DEEPEST), _MOST_PARTS))
    objects = [part for part in parts if isinstance(part, dict)]
    said: list[str] = []
    for text in (part for part in parts if isinstance(part, str) and part):
        if not any(text in other for other in said):
            said = [*(other for other in said if other not in text), text]
    if not said and body and not isinstance(body, str):
        said = [orjson.dumps(body).decode()]
    codes = [one.get(name) for name in ("code", "error_code", "type") for one in objects]
    params = (one["param"] for one in objects if isinstance(one.get("param"), str))
    return Refusal(
        _cut(": ".join(said[:_MOST_TEXTS])),
        tuple(code for code in codes if isinstance(code, str) and code not in ("", "error")),
        next(params, ""),
        structured=bool(objects),
    )


def opened(text: str) -> Any:
    """The object that a text is: JSON, or the data of server-sent events. Else the text."""
    text = text.removeprefix("\ufeff").strip()
    if _EVENT.match(text):
        lines = (line.removeprefix("data:").strip() for line in text.splitlines() if line.startswith("data:"))
        text = next((line for line in lines if line.startswith("{")), text)
    if not text.startswith(("{", "[", '"')):
        return text
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
    return opened(value) if isinstance(value, str) else value  # encoded twice


def page_text(text: str) -> str:
    """The title of a page and its first line that says more; empty if it has neither.

    Not by `html.parser`, which takes seconds for 16,000 characters that are made for that."""
    titles: list[str] = []
    lines: list[str] = []
    within = ""
    for piece in text[:MOST_CHARACTERS].split("<"):
        tag, _, data = piece.partition(">")
        name = tag.split(maxsplit=1)[0].lower() if tag.strip() else ""
        within = name if name in ("title", "script", "style") else "" if name == f"/{within}" else within
        if within not in ("script", "style") and data.strip():
            (titles if within == "title" else lines).append(" ".join(html.unescape(data).split()))
    title = " ".join(titles)
    line = next((line for line in lines if line not in title), "")
    return ": ".join(part for part in (title, line) if part)


def _parts(value: Any, depth: int) -> Iterator[str | dict[str, Any]]:
    """An error and those within it, the outermost first, each with the first of its texts."""
    if isinstance(value, str):
        value = opened(value)
    if isinstance(value, str):
        yield page_text(value) if _PAGE.match(value) else " ".join(value.split())
    within = value if isinstance(value, list) else []
    if isinstance(value, dict):
        yield value
        fields = [value[name] for name in (*_TEXTS, *_ENCLOSING) if value.get(name)]
        within = [opened(one) if isinstance(one, str) else one for one in fields]
        texts = [one for one in within if isinstance(one, str)]
        place = value.get("loc")  # FastAPI's: the field that is at fault
        where = f"{'.'.join(map(str, place))}: " if isinstance(place, list) and place else ""
        for text in texts[:1]:
            yield where + next(text for text in _parts(text, 0) if isinstance(text, str))
        within = [one for one in within if isinstance(one, dict | list)]
    for one in within[:_MOST_TEXTS] if depth else ():
        yield from _parts(one, depth - 1)


def _cut(text: str) -> str:
    """At most `MOST_CHARACTERS`, cut between words, so that no half of a key remains."""
    return text if len(text) <= MOST_CHARACTERS else text[:MOST_CHARACTERS].rpartition(" ")[0] or text[:MOST_CHARACTERS]


def wait_in_body(body: Any) -> float | None:
    """The seconds to wait that a refusal's body asks for, in a field or in words."""
    text = str(body)[:_READ_CHARACTERS]
    if found := _IN_A_FIELD.search(text):
        return float(found[1])
    if found := _IN_WORDS.search(text):
        return sum(float(amount) * _seconds_of(unit.lower()) for amount, unit in _ONE_TIME.findall(found[1]))
    return None


def _seconds_of(unit: str) -> float:
    if unit.startswith(("ms", "milli")):
        return 0.001
    return {"s": 1.0, "m": 60.0, "h": 3600.0}[unit[0]]
