"""Failures of model services, and the error messages that users get for them."""

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from agent_kernel.errors import SET_WHERE_IT_STARTS, ContextExceeded, ModelError, ModelRefused, ModelUnavailable
from agent_kernel.models.base import LocalServer
from agent_kernel.models.endpoints import Endpoint
from agent_kernel.models.known import SUGGESTED, near
from agent_kernel.models.length import LARGER_BODY, larger_context, too_large, too_long
from agent_kernel.models.refusals import read_refusal, wait_in_body
from agent_kernel.protocol.vocabulary import CUT_OFF, ApiName

DETAIL_CHARACTERS = 500
FORMATS: dict[ApiName, str] = {
    "chat": "chat completions format",
    "responses": "Responses API",
    "messages": "Messages API",
}
OWN_AUTHORITY = (
    "If it is signed by an authority of your own, as behind a company's proxy, set SSL_CERT_FILE to the file of that "
    "authority's certificates where Jupyter is started."
)
ASK_THE_DOCTOR = " `agent-kernel doctor` asks it, and says what is wrong."
NOTHING_OFFERED: Mapping[str, str] = MappingProxyType({})

FaultKind = Literal["status", "connection", "certificate", "cut", "idle", "answer", "address"]
"""`status`: an HTTP status or an error object; `connection`: the service can't be reached; `certificate`: one that is
not trusted; `cut`: the connection was closed early; `idle`: silence; `answer`: the stream broke off or is malformed;
`address`: what answers there is not a model's service."""

_RETRIED_STATUSES = frozenset({408, 409, 429})
_NOT_RETRIED = frozenset({"insufficient_quota", "content_filter", "content_policy_violation", "data_inspection_failed"})
"""Codes that make another try pointless, whatever the status: of an empty account, and of the filters of Azure, OpenAI
and DashScope."""
_STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "conflict_error": 409,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "api_error": 500,
    "internal_error": 500,
    "server_error": 500,
    "overloaded": 503,
    "server_is_overloaded": 503,
    "slow_down": 503,
    "timeout_error": 504,
    "vector_store_timeout": 504,
    "overloaded_error": 529,
}
"""HTTP statuses for the codes and types of errors that arrive within a stream, of OpenAI and Anthropic."""
_REFUSED = re.compile(r"invalid|image|policy|mismatch|context_length|not_supported|unsupported|not_found")
"""Parts of OpenAI's further codes that mean a refusal."""
_LOADING = re.compile(r"(?i)\bloading (?:the )?model\b|\bmodel\b.{0,200}\bloading\b")
"""Phrases of llama.cpp and Hugging Face."""
SLOW_SECONDS = 20.0
"""A try that a gateway ends after so long without an answer probably took longer than the gateway waits."""
_GATEWAY_STATUSES = frozenset({408, 499, 502, 503, 504, 524})


class Fault(Exception):
    """One failed attempt. `explain` makes the `ModelError` that leaves this package."""

    def __init__(
        self,
        kind: FaultKind,
        detail: str,
        *,
        status: int | None = None,
        code: str = "",
        param: str = "",
        structured: bool = False,
        retry: bool = False,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(detail)
        self.kind = kind
        self.detail = detail
        """What the service says; with secrets that it repeats, until `HttpModel` or `ModelList` has scrubbed them."""
        self.status = status
        self.code = code
        """The service's error code, such as `context_length_exceeded`."""
        self.param = param
        """The field of the request that the fault is about, such as `reasoning.effort`."""
        self.structured = structured
        """Whether the service itself said it, in JSON. Anything between may send a page or plain text."""
        self.too_long = too_long(status, code, detail, structured=structured) if kind == "status" else None
        """Set if the service refuses the request for its length, so that retrying it unchanged is pointless."""
        self.too_large = kind == "status" and self.too_long is None and too_large(status, code, detail)
        """Whether the service, or a proxy before it, refuses the request for its bytes."""
        self.retry = retry and self.too_long is None and not self.too_large
        self.retry_after = retry_after
        self.took = 0.0
        """Seconds that the try took, once it is known."""

    @property
    def shown(self) -> str:
        """As much of the detail as a message has."""
        return self.detail if len(self.detail) <= DETAIL_CHARACTERS else self.detail[: DETAIL_CHARACTERS - 1] + "…"

    @property
    def said(self) -> str:
        """What the service said, as a sentence; empty if it said nothing."""
        return _ended(self.shown)

    @property
    def loading(self) -> bool:
        """Whether the server says that it is loading the model."""
        return self.retry and self.status == 503 and _LOADING.search(self.detail) is not None

    @property
    def is_slow_start(self) -> bool:
        """Whether something between here and the model probably did not wait long enough for a first word."""
        ended = self.kind == "cut" or (self.kind == "status" and self.status in _GATEWAY_STATUSES)
        return ended and self.took >= SLOW_SECONDS


@dataclass(frozen=True, slots=True)
class Asked:
    """Which model was asked where, for messages."""

    endpoint: Endpoint
    model: str
    api: ApiName = "chat"
    server: LocalServer | None = None
    """The program that runs the model there, if it says so."""
    proxy: str = ""
    """The proxy through which it is asked, without credentials, and the variable that names it; empty for none."""


def status_fault(status: int, body: Any, *, retry_after: float | None = None, should_retry: str | None = None) -> Fault:
    """The fault for an HTTP status and its body, or for an error object in a stream that contains a status. Without
    `retry_after`, the wait that `body` asks for counts."""
    retry = status in _RETRIED_STATUSES or status >= 500
    if should_retry is not None:  # OpenAI's servers send this header to override the status
        retry = should_retry == "true"
    wait = wait_in_body(body) if retry_after is None else retry_after
    return _said(body, status, retry=retry, retry_after=wait)


def error_object_fault(error: Any) -> Fault:
    """The fault for an `error` object in a stream."""
    status = _status_of(error) if isinstance(error, dict) else None
    return _said(error, None, retry=True) if status is None else status_fault(status, error)


def _status_of(error: dict[str, Any]) -> int | None:
    """The status that an error object has, or that its code or its type stands for."""
    digits = str(error.get("code", error.get("status")))
    if len(digits) == 3 and digits.isdigit() and digits[0] in "45":
        return int(digits)
    code, kind = str(error.get("code")), str(error.get("type"))
    return _STATUSES.get(code) or _STATUSES.get(kind) or (400 if _REFUSED.search(code) else None)


def _said(body: Any, status: int | None, *, retry: bool, retry_after: float | None = None) -> Fault:
    """The fault with all that the service says about it."""
    said = read_refusal(body)
    return Fault(
        "status",
        said.detail,
        status=status,
        code=said.codes[0] if said.codes else "",
        param=said.param,
        structured=said.structured,
        retry=retry and _NOT_RETRIED.isdisjoint(said.codes),
        retry_after=retry_after,
    )


def is_about_the_name(fault: Fault) -> bool:
    """Whether the service may say that it has no model of that name."""
    return fault.kind == "status" and (fault.status == 404 or fault.code == "model_not_found")


def explain(
    fault: Fault,
    asked: Asked,
    *,
    tries: int,
    words: int | None = None,
    offered: Mapping[str, str] = NOTHING_OFFERED,
) -> ModelError:
    """The error for the user. `words` is the length of the answer that came, `None` if nothing did. `offered` are the
    models that the service is known to have, each with its name for `--model`."""
    endpoint, detail = asked.endpoint, fault.shown
    if words is not None:
        return ModelUnavailable(_cut_off(detail, words))
    if fault.too_long is not None or fault.too_large:
        return _exceeded(fault, asked, detail)
    through = _through(asked) if not fault.structured else ""
    if fault.kind == "address":
        head = _sentence(f"{endpoint.where} does not speak the {FORMATS[asked.api]}", detail)
        return ModelRefused(f"{head} Check {endpoint.address_setting}; it usually ends in /v1.{through}")
    if fault.kind == "certificate":
        head = _sentence(f"The certificate of {endpoint.where} is not trusted here", detail)
        return ModelRefused(f"{head} {OWN_AUTHORITY}{through}")
    if is_about_the_name(fault):
        return ModelRefused(_unknown_name(fault, asked, detail, offered) + through)
    if fault.kind == "status" and fault.status is not None and not fault.retry:
        return ModelRefused(_refused(fault, asked, detail) + through)
    failed = cause_of(fault, asked, f" after {tries} tries" if tries > 1 else "")
    if fault.kind == "connection":
        return ModelUnavailable(failed + _unreachable(endpoint, through))
    wait = f" It asks to wait {fault.retry_after:.0f} s." if fault.retry_after else ""
    return ModelUnavailable(failed + wait + through)


def cause_of(fault: Fault, asked: Asked, after: str = "") -> str:
    """What went wrong, as a sentence; `after` how many tries."""
    where, detail = asked.endpoint.where, fault.shown
    match fault.kind:
        case "connection":
            head = f"{where} can't be reached{after}"
        case "cut":
            head, detail = f"{where} closed the connection{after}, before a word of the answer came", ""
        case "idle":
            head = f"{where} went silent{after}"
        case _ if fault.loading:
            head = f"{where} is still loading {asked.model}"
        case _:
            code = f" ({fault.status})" if fault.status else ""
            head = f"{where} failed{after}{code}"
    return _sentence(head, detail) + (_slow(fault) if fault.is_slow_start else "")


def _slow(fault: Fault) -> str:
    return (
        f" That was after {fault.took:.0f} s: probably the model takes longer to read so long a prompt than a gateway "
        "on the way waits. A shorter conversation (`%agent new`) or a longer time limit of the gateway helps."
    )


def _cut_off(detail: str, words: int) -> str:
    if not words:
        return _sentence(CUT_OFF, detail) + " Try again asks the model once more."
    head = f"{CUT_OFF} after {words:,} {'word' if words == 1 else 'words'}"
    return _sentence(head, detail) + " What came is kept in the record. Try again asks the model once more."


def _through(asked: Asked) -> str:
    """What a user should know of the proxy, which may be what failed."""
    if not asked.proxy:
        return ""
    said, host = f" It was asked through the proxy {asked.proxy}.", asked.endpoint.host
    if not _is_in_own_network(host):
        return said
    return f"{said} For this address that is hardly meant: add {host} to NO_PROXY where Jupyter is started."


def _is_in_own_network(host: str) -> bool:
    try:
        return not ipaddress.ip_address(host).is_global
    except ValueError:
        return "." not in host or host.endswith((".local", ".localhost", ".internal"))


def _unreachable(endpoint: Endpoint, through: str) -> str:
    running, online = " Is the server there running?", " Is this machine online, and may it reach that address?"
    question = through or (running if endpoint.is_near else online)
    setting = f" {endpoint.address_setting} sets the address." if endpoint.address_setting else ""
    return f"{question}{setting}{ASK_THE_DOCTOR}"


def _unknown_name(fault: Fault, asked: Asked, detail: str, offered: Mapping[str, str]) -> str:
    says_so = fault.code == "model_not_found" or asked.model in detail or "model" in detail.lower()
    said = f"does not know the model {asked.model!r}" if says_so else f"refused a request for the model {asked.model!r}"
    head = _sentence(f"{asked.endpoint.where} {said} ({fault.status or fault.code})", detail)
    others = {name: shown for name, shown in offered.items() if name != asked.model}
    alike = near(asked.model, others)
    advice = "Name another with --model or AGENT_KERNEL_MODEL."
    if names := [others[name] for name in alike or list(others)[:SUGGESTED]]:
        have = "Near that" if alike else "It has"
        advice = f"{have}: {', '.join(names)}. Name one with --model or AGENT_KERNEL_MODEL."
    if asked.model in offered:
        advice = f"It lists that model, but perhaps not for the {FORMATS[asked.api]}. {advice}"
    elif not offered and asked.endpoint.address_setting:
        advice += f" If the address is wrong, set {asked.endpoint.address_setting}; it usually ends in /v1."
    return f"{head} {advice} `%agent models` lists what there is."


def _exceeded(fault: Fault, asked: Asked, detail: str) -> ContextExceeded:
    status = f" ({fault.status})" if fault.status else ""
    if fault.too_long is None:
        head = _sentence(f"{asked.endpoint.where} takes no request of this size{status}", detail)
        return ContextExceeded(f"{head} {LARGER_BODY}")
    head = _sentence(f"{asked.endpoint.where} says that the request is too long for {asked.model}{status}", detail)
    advice = larger_context(asked.server)
    return ContextExceeded(f"{head} {advice}", size=fault.too_long.size, limit=fault.too_long.limit)


def _refused(fault: Fault, asked: Asked, detail: str) -> str:
    status = fault.status or 0
    match status:
        case 401 | 403 if fault.structured or not asked.proxy:
            head = f"{asked.endpoint.where} refused the API key ({status})"
            advice = f" Set {asked.endpoint.named_key_setting} to a key that may use {asked.model}, "
            advice += SET_WHERE_IT_STARTS
        case 429:
            head, advice = f"{asked.endpoint.where} has no quota left for this key (429)", ""
        case _ if 300 <= status < 400:
            head = f"{asked.endpoint.where} redirects elsewhere ({status}), and a key is sent to no other address"
            advice = f" Set {asked.endpoint.address_setting} to the final address."
        case _:
            head, advice = f"{asked.endpoint.where} refused the request ({status})", ""
    return _sentence(head, detail) + advice


def _sentence(head: str, detail: str) -> str:
    if not detail:
        return f"{head}."
    return f"{head}: {_ended(detail)}"


def _ended(text: str) -> str:
    return text if text[-1:] in ("", ".", "!", "?", "…") else f"{text}."
