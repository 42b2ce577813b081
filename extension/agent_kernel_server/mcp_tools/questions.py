"""Questions of servers (elicitation): each field is asked as `ask_user` asks. Secrets are never asked for."""

import re
from collections.abc import Callable, Mapping
from typing import Any

import mcp_types as types

from agent_kernel.tools.executor import Ask

MOST_FIELDS = 20
_SECRET = re.compile(
    r"pass(?:word|phrase|wd|code)|secret|token|credential|api.?key|private.?key|\bpin\b|\botp\b|cvv|card.?number|ssn",
    re.IGNORECASE,
)
_WARNING = re.compile(r"\b(?:do not|don't|never) (?:give|share|enter|send|provide|include)\b[^.;)]*", re.IGNORECASE)
"""A sentence that warns of secrets asks for none."""
NO_SECRETS = (
    "Refused: it asks for a secret, and what is answered here stays in the notebook's log. Give the server its secrets "
    "in its configuration (env, headers)."
)
NO_ADDRESSES = "Refused: a server can't have a page opened from here."


async def answer_to(
    params: types.ElicitRequestParams, server: str, ask: Ask, say: Callable[[str], None]
) -> types.ElicitResult | types.ErrorData:
    """The person's answer. `say` tells them on the call's card what was refused."""
    if isinstance(params, types.ElicitRequestURLParams):
        refuse_address(params, say)
        return types.ErrorData(code=types.INVALID_REQUEST, message=NO_ADDRESSES)
    fields = params.requested_schema.get("properties")
    fields = fields if isinstance(fields, Mapping) else {}
    if asks_for_secret(params.message, fields):
        say(NO_SECRETS)
        return types.ErrorData(code=types.INVALID_REQUEST, message=NO_SECRETS)
    if len(fields) > MOST_FIELDS:
        return types.ErrorData(code=types.INVALID_REQUEST, message=f"More than {MOST_FIELDS} fields at once.")
    message = f"The server {server} asks: {params.message[:2_000]}"
    if not fields:
        if await ask(message, ["Yes", "No"]) == "Yes":
            return types.ElicitResult(action="accept", content={})
        return types.ElicitResult(action="decline")
    required = params.requested_schema.get("required", [])
    content: dict[str, Any] = {}
    for number, (name, described) in enumerate(fields.items(), start=1):
        described = described if isinstance(described, Mapping) else {}
        more = f" ({described['description']})" if described.get("description") else ""
        about = f"{described.get('title') or name}{more}"
        which = f", {number} of {len(fields)}" if len(fields) > 1 else ""
        said = await ask(f"{message} ({about[:500]}{which})", choices_of(described))
        if said is None or said == "":
            if name in required or len(fields) == 1:
                return types.ElicitResult(action="decline")
            continue
        try:
            content[str(name)] = value_of(said, described)
        except ValueError:
            say(f"The answer {said[:100]!r} is no {described.get('type')}: the server was told that there is none.")
            return types.ElicitResult(action="cancel")
    return types.ElicitResult(action="accept", content=content)


def refuse_address(params: types.ElicitRequestURLParams, say: Callable[[str], None]) -> None:
    say(f"{NO_ADDRESSES} It wanted {params.url[:500]}")


def asks_for_secret(message: str, fields: Mapping[Any, Any]) -> bool:
    texts = [message]
    for name, described in fields.items():
        texts.append(str(name))
        if isinstance(described, Mapping):
            texts += [str(described.get(key, "")) for key in ("title", "format")]
            texts.append(_WARNING.sub("", str(described.get("description", ""))))
    return any(_SECRET.search(text.replace("_", " ")) or _SECRET.search(text) for text in texts)


def choices_of(field: Mapping[str, Any]) -> list[str]:
    if field.get("type") == "boolean":
        return ["Yes", "No"]
    options = field.get("enum")
    if not isinstance(options, list):
        options = [one.get("const") for one in field.get("oneOf", []) if isinstance(one, Mapping)]
    return [str(one) for one in options if one is not None][:9]


def value_of(said: str, field: Mapping[str, Any]) -> Any:
    """Raises `ValueError` for a text that is no such value."""
    match field.get("type"):
        case "boolean":
            return ("no", "false", "yes", "true").index(said.strip().lower()) > 1
        case "integer":
            return int(said)
        case "number":
            return float(said)
        case "array":
            return [part.strip() for part in said.split(",") if part.strip()]
        case _:
            return said
