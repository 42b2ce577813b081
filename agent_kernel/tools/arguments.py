"""Parses the arguments of calls, and makes their canonical JSON text and its digest."""

import hashlib
import json
import math
from typing import Any

from agent_kernel.errors import InvalidArguments
from agent_kernel.protocol.json_once import RepeatedName, unique

_ADVICE = "Send the arguments as one JSON object."


def canonical(arguments: dict[str, Any]) -> str:
    """The canonical JSON of arguments: sorted keys, compact, unescaped, integers of any size.

    Raises `InvalidArguments` for values that JSON or UTF-8 can't represent (NaN, infinity, lone surrogates, others).
    """
    text = _dump(arguments, sort_keys=True, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidArguments("The arguments hold half of a surrogate pair, which is not a character.") from None
    return text


def digest(canonical_text: str) -> str:
    """The SHA-256 of the canonical text, in hexadecimal, to which an approval is bound."""
    return hashlib.sha256(canonical_text.encode()).hexdigest()


def parse(raw: str | dict[str, Any]) -> dict[str, Any]:
    """Parse arguments as models send them. Raises `InvalidArguments`, with a message that the model can act on.

    Accepted: an empty text or `null` for no arguments, and a JSON string that contains the object's JSON. A lone
    surrogate becomes U+FFFD. Refused: a repeated name, because parsers differ on which value counts and what a person
    approves must be what runs; NaN and infinity, which are not JSON; anything but an object.
    """
    if isinstance(raw, dict):
        raw = _dump(raw)
    value = _load(raw) if raw.strip() else {}
    if isinstance(value, str):
        value = _load(value) if value.strip() else {}
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidArguments(f"The arguments are {_kind(value)}. {_ADVICE}")
    return value if _is_free_of_surrogates(raw) else _without_surrogates(value)


def _dump(value: Any, **form: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, **form)
    except RecursionError:
        raise InvalidArguments(f"The arguments are nested too deeply. {_ADVICE}") from None
    except (TypeError, ValueError) as error:
        raise InvalidArguments(f"The arguments are not JSON: {error}. {_ADVICE}") from None


def _load(text: str) -> Any:
    try:
        return json.loads(
            text, object_pairs_hook=unique, parse_float=_finite, parse_constant=_refuse_constant, strict=False
        )
    except RepeatedName as error:
        raise InvalidArguments(f"{error}. Send it once.") from None
    except json.JSONDecodeError as error:
        raise InvalidArguments(
            f"The arguments are not valid JSON: {error.msg} at line {error.lineno}, column {error.colno}. {_ADVICE}"
        ) from None
    except RecursionError:
        raise InvalidArguments(f"The arguments are nested too deeply. {_ADVICE}") from None
    except ValueError:
        raise InvalidArguments("A number in the arguments has too many digits. Send it as a string.") from None


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise InvalidArguments(f"The number {text[:40]} is too large for a float.")
    return number


def _refuse_constant(text: str) -> Any:
    raise InvalidArguments(f"{text} is not JSON. Send null or a string.")


def _is_free_of_surrogates(text: str) -> bool:
    """Whether no value in this JSON can hold a surrogate: most arguments are ASCII without escapes of this kind, and
    are read several times on their way."""
    return text.isascii() and "\\u" not in text


def _without_surrogates(value: dict[str, Any]) -> dict[str, Any]:
    text = _dump(value)
    try:
        text.encode()
    except UnicodeEncodeError:
        clean = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        repaired: dict[str, Any] = _load(clean)
        return repaired
    return value


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, list):
        return "a list"
    return "a string" if isinstance(value, str) else "a number"
