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
_MOST_PARTS = 5
"""The most parts of one message: faults in a list, messages within messages."""
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
    said: list[str] = []
    for part in islice(_texts(body, _DEEPEST), 4 * _MOST_PARTS):
        if part and not any(part in other for other in said):
            said = [*(other for other in said if other not in part), part]
    if not said and body and not isinstance(body, str):
        said = [orjson.dumps(body).decode()]
    objects = list(islice(_objects(body, _DEEPEST), 4 * _MOST_PARTS))
    codes = [one.get(name) for name in ("code", "error_code", "type") for one in objects]
    params = (one["param"] for one in objects if isinstance(one.get("param"), str))
    return Refusal(
        _cut(": ".join(said[:_MOST_PARTS])),
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


def _texts(value: Any, depth: int) -> Iterator[str]:
    """The first text of an error, and those of the errors within it."""
    if isinstance(value, str):
        value = opened(value)
    if isinstance(value, str):
        yield page_text(value) if _PAGE.match(value) else " ".join(value.split())
    elif isinstance(value, dict):
        texts, enclosed = _parts(value)
        if texts:
            place = value.get("loc")  # FastAPI's: the field that is at fault
            where = f"{'.'.join(map(str, place))}: " if isinstance(place, list) and place else ""
            yield where + ": ".join(_texts(texts[0], 0))
        for one in enclosed if depth else ():
            yield from _texts(one, depth - 1)
    elif isinstance(value, list):
        several = (": ".join(_texts(one, depth - 1)) for one in value[:_MOST_PARTS] if depth)
        yield "; ".join(part for part in several if part)
    elif value is not None:
        yield str(value)


def _objects(value: Any, depth: int) -> Iterator[dict[str, Any]]:
    """The errors within one another, the outermost first."""
    if isinstance(value, str):
        value = opened(value)
    if isinstance(value, dict):
        yield value
    enclosed = _parts(value)[1] if isinstance(value, dict) else value if isinstance(value, list) else []
    for one in enclosed[:_MOST_PARTS] if depth else ():
        yield from _objects(one, depth - 1)


def _parts(error: dict[str, Any]) -> tuple[list[str], list[Any]]:
    """The plain texts of an error's fields, and what is within it."""
    values = [error[name] for name in (*_TEXTS, *_ENCLOSING) if error.get(name)]
    read = [opened(value) if isinstance(value, str) else value for value in values]
    return [one for one in read if isinstance(one, str)], [one for one in read if isinstance(one, dict | list)]


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
