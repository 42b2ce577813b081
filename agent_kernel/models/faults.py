"""Failures of model services, and the error messages that users get for them."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

from agent_kernel.errors import ContextExceeded, ModelError, ModelRefused, ModelUnavailable
from agent_kernel.models.length import LARGER_CONTEXT, TooLong, too_long
from agent_kernel.models.redaction import scrub
from agent_kernel.models.suggestions import SUGGESTED, near
from agent_kernel.protocol.vocabulary import ApiName

DETAIL_CHARACTERS = 500
FORMATS: dict[ApiName, str] = {
    "chat": "chat completions format",
    "responses": "Responses API",
    "messages": "Messages API",
}
ASK_THE_DOCTOR = " `agent-kernel doctor` asks it, and says what is wrong."

FaultKind = Literal["status", "connection", "idle", "answer", "address"]
"""`status`: an HTTP status or an error object; `connection`: the network; `idle`: silence; `answer`: the stream broke
off or is malformed; `address`: what answers there is not a model's service."""

_RETRIED_STATUSES = frozenset({408, 409, 429})


class Fault(Exception):
    """One failed attempt. Internal: `explain` makes the `ModelError` that leaves this package."""

    def __init__(
        self,
        kind: FaultKind,
        detail: str,
        *,
        status: int | None = None,
        code: str = "",
        param: str = "",
        retry: bool = False,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(detail)
        self.kind = kind
        self.detail = detail
        self.status = status
        self.code = code
        """The service's error code, such as `context_length_exceeded`."""
        self.param = param
        """The field of the request that the fault is about, such as `reasoning.effort`."""
        self.too_long = too_long(status, code, detail) if kind == "status" else None
        """Set if the service refuses the request for its length, so that retrying it unchanged is pointless."""
        self.retry = retry and self.too_long is None
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True)
class ServiceLabel:
    """Names of an endpoint and its settings for messages. It holds no key."""

    base_url: str
    key_setting: str
    """The setting that holds the key: `OPENAI_API_KEY`."""
    address_setting: str
    """The setting that holds the address: `OPENAI_BASE_URL`."""
    model: str
    api: ApiName = "chat"

    @property
    def is_near(self) -> bool:
        """Whether it is probably the user's own server: hosted services use TLS."""
        return self.base_url.startswith("http://")

    @property
    def where(self) -> str:
        parts = urlsplit(self.base_url)
        host = parts.hostname or ""
        host = f"[{host}]" if ":" in host else host
        port = f":{parts.port}" if parts.port else ""
        return f"{parts.scheme}://{host}{port}{parts.path.rstrip('/')}"


def status_fault(status: int, body: Any, *, retry_after: float | None = None, should_retry: str | None = None) -> Fault:
    """The fault for an HTTP status, or for an error object in a stream that contains a status."""
    retry = status in _RETRIED_STATUSES or status >= 500
    if should_retry is not None:  # OpenAI's servers send this header to override the status
        retry = should_retry == "true"
    if isinstance(body, dict) and "insufficient_quota" in (body.get("code"), body.get("type")):
        retry = False
    return _said(body, status, retry=retry, retry_after=retry_after)


def error_object_fault(error: Any) -> Fault:
    """The fault for an `error` object in a stream."""
    code = error.get("code", error.get("status")) if isinstance(error, dict) else None
    digits = str(code)
    status = int(digits) if len(digits) == 3 and digits.isdigit() and digits[0] in "45" else None
    if status is None:
        refused = isinstance(error, dict) and error.get("type") == "invalid_request_error"
        return _said(error, 400 if refused else None, retry=not refused)
    return status_fault(status, error)


def _said(body: Any, status: int | None, *, retry: bool, retry_after: float | None = None) -> Fault:
    """The fault with all that the service says about it."""
    code, param = code_of(body), param_of(body)
    return Fault("status", detail_of(body), status=status, code=code, param=param, retry=retry, retry_after=retry_after)


def detail_of(body: Any) -> str:
    """The server's message, from the formats of OpenAI, Ollama, vLLM and FastAPI."""
    if isinstance(body, dict):
        for field in ("message", "error", "detail"):
            if body.get(field):
                return detail_of(body[field])
    return "" if body is None else " ".join(str(body).split())


def code_of(body: Any) -> str:
    """The error's `code`, which is more specific, or else its `type`."""
    named = [body.get("code"), body.get("type")] if isinstance(body, dict) else []
    return next((one for one in named if isinstance(one, str) and one), "")


def param_of(body: Any) -> str:
    param = body.get("param") if isinstance(body, dict) else None
    return param if isinstance(param, str) else ""


def is_about_the_name(fault: Fault) -> bool:
    """Whether the service says that it has no model of that name."""
    return fault.kind == "status" and (fault.status == 404 or fault.code == "model_not_found")


def explain(
    fault: Fault,
    label: ServiceLabel,
    *,
    tries: int,
    said_something: bool,
    secrets: Iterable[str],
    offered: Iterable[str] = (),
) -> ModelError:
    """The error for the user. No secret appears in it, whatever the server echoed. `offered` are the models that the
    service is known to have."""
    detail = scrub(fault.detail, secrets)
    if len(detail) > DETAIL_CHARACTERS:
        detail = detail[: DETAIL_CHARACTERS - 1] + "…"
    if said_something:
        return ModelUnavailable(_sentence(f"The answer of {label.model} was cut off", detail))
    if fault.too_long is not None:
        return _exceeded(fault.too_long, fault.status, label, detail)
    if fault.kind == "address":
        return ModelRefused(
            _sentence(f"{label.where} does not speak the {FORMATS[label.api]}", detail)
            + f" Check {label.address_setting}; it usually ends in /v1."
        )
    if is_about_the_name(fault):
        return _unknown_name(fault, label, detail, list(offered))
    if fault.kind == "status" and fault.status is not None and not fault.retry:
        return _refused(fault.status, label, detail)
    after = f" after {tries} tries" if tries > 1 else ""
    wait = f" It asks to wait {fault.retry_after:.0f} s." if fault.retry_after else ""
    match fault.kind:
        case "connection":
            head = f"{label.where} can't be reached{after}"
            wait = _unreachable(label)
        case "idle":
            head = f"{label.where} went silent{after}"
        case _:
            code = f" ({fault.status})" if fault.status else ""
            head = f"{label.where} failed{after}{code}"
    return ModelUnavailable(_sentence(head, detail) + wait)


def _unreachable(label: ServiceLabel) -> str:
    question = (
        "Is the server there running?" if label.is_near else "Is this machine online, and may it reach that address?"
    )
    setting = f" {label.address_setting} sets the address." if label.address_setting else ""
    return f" {question}{setting}{ASK_THE_DOCTOR}"


def _unknown_name(fault: Fault, label: ServiceLabel, detail: str, offered: list[str]) -> ModelRefused:
    head = f"{label.where} does not know the model {label.model!r} ({fault.status or fault.code})"
    if names := near(label.model, offered):
        advice = f" Near that: {', '.join(names)}. Name one with --model or AGENT_KERNEL_MODEL."
    elif offered:
        advice = f" It has {', '.join(offered[:SUGGESTED])}. Name one with --model or AGENT_KERNEL_MODEL."
    else:
        advice = " Name another with --model or AGENT_KERNEL_MODEL."
        if label.address_setting:
            advice += f" If the address is wrong, set {label.address_setting}; it usually ends in /v1."
    return ModelRefused(f"{_sentence(head, detail)}{advice} `%agent models` lists what there is.")


def _exceeded(length: TooLong, status: int | None, label: ServiceLabel, detail: str) -> ContextExceeded:
    head = f"{label.where} says that the request is too long for {label.model}" + (f" ({status})" if status else "")
    return ContextExceeded(f"{_sentence(head, detail)} {LARGER_CONTEXT}", size=length.size, limit=length.limit)


def _refused(status: int, label: ServiceLabel, detail: str) -> ModelRefused:
    match status:
        case 401 | 403:
            head = f"{label.where} refused the API key ({status})"
            advice = f" Set {label.key_setting} to a key that may use {label.model}, and restart."
        case 429:
            head, advice = f"{label.where} has no quota left for this key (429)", ""
        case _ if 300 <= status < 400:
            head = f"{label.where} redirects elsewhere ({status}), and a key is sent to no other address"
            advice = f" Set {label.address_setting} to the final address."
        case _:
            head, advice = f"{label.where} refused the request ({status})", ""
    return ModelRefused(_sentence(head, detail) + advice)


def _sentence(head: str, detail: str) -> str:
    if not detail:
        return f"{head}."
    return f"{head}: {detail}" + ("" if detail[-1] in ".!?…" else ".")
