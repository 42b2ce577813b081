"""What is learned from refused requests, and the request to send in place of a refused one.

One table says which words of services teach what: a field to leave out, another form of messages. Beside it: thoughts
that are not taken back, another API, requests that are too large, images and tools that a model does not take.
"""

import hashlib
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson

from agent_kernel.models.anthropic import MessagesApi
from agent_kernel.models.api import Api, has_field
from agent_kernel.models.base import IMAGES, PROVIDER, ModelRequest, WireMessage
from agent_kernel.models.chat import ChatApi
from agent_kernel.models.chat_messages import ANSWERS_END_STEPS, EMPTY_REASONING, SHORT_IDS
from agent_kernel.models.known import SUGGESTED
from agent_kernel.models.provider_items import readable_items
from agent_kernel.models.responses import ResponsesApi
from agent_kernel.models.service_faults import Fault
from agent_kernel.protocol.vocabulary import ApiName

_log = logging.getLogger(__name__)
_QUOTED = 200
"""The most characters of a service's refusal that a message quotes."""
APIS: Mapping[ApiName, type[Api]] = {"chat": ChatApi, "messages": MessagesApi, "responses": ResponsesApi}


@dataclass(frozen=True, slots=True)
class Amendment:
    """The request to send in place of a refused one."""

    request: ModelRequest
    """May be the same request, if another body is made of it from now on."""
    notice: str = ""
    """A sentence for the user about what is done differently; empty if they need not know."""


@dataclass(frozen=True, slots=True)
class _Field:
    """A field of a request's body that some services and models refuse, and that hardly matters for the answer."""

    api: ApiName
    path: str
    words: re.Pattern[str]
    """What a refusal says of it."""


def _fields(api: ApiName, *fields: tuple[str, str]) -> tuple[_Field, ...]:
    return tuple(_Field(api, path, re.compile(words, re.IGNORECASE | re.DOTALL)) for path, words in fields)


_FIELDS = (
    *_fields(
        "chat",
        ("reasoning_effort", r"reasoning_effort|not support thinking"),  # the latter is Ollama's
        ("messages.*.reasoning_content", r"\breasoning_content\b"),
        ("messages.*.reasoning_details", r"\breasoning_details\b"),
        ("messages.*.thinking_blocks", r"\bthinking_blocks\b"),
        ("messages.*.tool_calls.*.extra_content", r"\bextra_content\b"),
        ("messages.*.reasoning", r"['\"`.]reasoning\b"),  # the word alone may be about anything
    ),
    *_fields(
        "responses",
        *(
            (path, rf"['\"`]{re.escape(path)}\b")
            for path in ("reasoning.summary", "reasoning.effort", "include", "prompt_cache_key", "store", "reasoning")
        ),
    ),
    *_fields("messages", ("thinking", "thinking"), ("output_config", r"effort|output_config")),
)
_EFFORTS = ("reasoning_effort", "reasoning.effort", "reasoning", "output_config")
_NO_EFFORT = "{} does not take the effort {!r}; it was left out."

_FORMS = {
    EMPTY_REASONING: re.compile(
        r"(?i)missing\W+reasoning_content\b|\breasoning_content\b.{0,40}(?:missing|passed back|required)"
    ),
    SHORT_IDS: re.compile(
        r"(?is)tool[ _]?(?:call|use|result)s?(?:\[\d+\])?[ _.]?id.*(?:length|pattern|alphanumeric|too long)"
    ),
    ANSWERS_END_STEPS: re.compile(r"(?i)unexpected role '?user'? after role '?tool"),
}
"""Forms of messages of Chat Completions: DeepSeek's and Kimi's; Mistral's, that of OpenAI (an id above 40 characters)
and of gateways to Anthropic and Bedrock; Mistral's and its chat templates'."""

_BAD_THOUGHTS = re.compile(
    r"(?is)(?:invalid|corrupted)\W{1,3}(?:thought )?signature|signature.{0,40}(?:invalid|not valid)"
    r"|blocks?\b.{0,200}(?:modified|match|remain)|\brs_\w+|encrypted|reasoning\W+item|item\W+of type\W+reasoning"
    r"|input\[\d+\]"
)
_NO_THOUGHTS = "{} no longer accepts what it thought earlier in this conversation, so it was asked without that."

_NAMED: dict[ApiName, re.Pattern[str]] = {
    "responses": re.compile(r"(?i)\bv1/responses\b|\bresponses (api|endpoint)"),
    "chat": re.compile(r"(?i)\bchat/completions\b|\bchat[ -]completions? (api|endpoint)"),
    "messages": re.compile(r"(?i)\bv1/messages\b|\bmessages (api|endpoint)"),
}
"""Phrases by which refusals name an API."""
_NO_SUCH_ROUTE = frozenset({404, 405, 501})
_NO_ROUTE_WORDS = re.compile(
    r"(?i)unexpected endpoint|unknown (url|endpoint|route)|invalid url|404 page not found|cannot post /"
    r"|no route(s)? matched|['\"]detail['\"]: ?['\"]not found"
)
_ABOUT_THE_GROUP = re.compile(r"(?s)[\s.]*Received Model Group=.*")
"""What LiteLLM adds to each error of an upstream."""
_REFUSALS = frozenset({400, 404, 405, 415, 422, 500, 501})
"""Local servers answer 404 and 500 where a chat template refuses a message."""
_NO_TOOLS = re.compile(
    r"(?i)(does not|doesn't|do not) support (tools?\b|tool (use|calling|calls)|function calling)"
    r"|support tool use|enable-auto-tool-choice|tools param requires"
    r"|(`?tools`?|tool (use|calling|calls|choice)|function calling) (is|are) not (supported|available|enabled)"
)
_NO_IMAGES = re.compile(
    r"(?i)image_url|input_image|image input|images? (is|are) not|not a multimodal|at most \d+ image"
    r"|support (for )?(the )?(images?|vision|multi-?modal)|multi-?modal (data|input)|mmproj"
)
"""Phrases of OpenAI, vLLM, Ollama, llama.cpp, DeepSeek and OpenRouter."""


def other_api(fault: Fault, api: ApiName, wire_name: str) -> ApiName | None:
    """The API that the service's refusal asks for, if any."""
    if fault.kind not in ("status", "address", "answer"):
        return None
    if fault.status in _REFUSALS:
        named = [name for name, words in _NAMED.items() if name != api and words.search(fault.detail)]
        if len(named) == 1:
            return named[0]
    if not lacks_route(fault, wire_name):
        return None
    if api != "chat":
        return "chat"
    return "messages" if fault.code == "not_found_error" else None  # Anthropic's own code


def lacks_route(fault: Fault, wire_name: str) -> bool:
    """Whether the service, or the one behind it, lacks the path, not the model."""
    said = _ABOUT_THE_GROUP.sub("", fault.detail)
    if wire_name in said or "model" in f"{fault.code} {said}".lower():
        return False
    return fault.status in _NO_SUCH_ROUTE or _NO_ROUTE_WORDS.search(said) is not None


def refuses_tools(fault: Fault) -> bool:
    return _is_refusal(fault) and _NO_TOOLS.search(fault.detail) is not None


def _is_refusal(fault: Fault) -> bool:
    return fault.kind == "status" and fault.status in _REFUSALS


class Fallbacks:
    """Remembers what the service of one model has refused, for the life of the process, and adapts requests to it."""

    def __init__(
        self,
        wire_name: str,
        where: str,
        api: ApiName,
        *,
        takes_tools: bool = True,
        others: Callable[[], list[str]] = list,
    ) -> None:
        """`others` are other models there that take tools, by their names for `--model`."""
        self._model = wire_name
        self._where = where
        self._others = others
        self.api = APIS[api](wire_name, where)
        """The API that is asked."""
        self._left: tuple[Api, Fault | None] | None = None
        """The API that was asked at first, where another is asked, and its refusal until the other has answered."""
        self._without_tools = "" if takes_tools else "so it is configured"
        self._pictures_left_out: set[str] = set()
        """The digests of pictures with which a request was too large."""
        self._thoughts_left_out: set[bytes] = set()
        """The digests of provider items that the service no longer takes back."""
        self.takes_images = True
        """False once the service has refused images. A line of text replaces each then."""

    @property
    def takes_tools(self) -> bool:
        return not self._without_tools

    def prepared(self, request: ModelRequest) -> tuple[ModelRequest, str]:
        """The request without parts that were refused before, and a notice about it for the user."""
        request = self._without_thoughts(self._without_pictures(request))
        if not request.tools or not self._without_tools:
            return request, ""
        return replace(request, tools=()), self._notice()

    def note_answer(self) -> None:
        """The API that is asked now is the right one."""
        if self._left is not None:
            self._left = self._left[0], None

    def told(self, fault: Fault) -> Fault:
        """The fault to tell where a request failed for good. Where the other API is not there either, the first one's
        words count, and that is asked again."""
        api, first = self._left or (self.api, None)
        if first is None or not lacks_route(fault, self._model):
            return fault
        self.api, self._left = api, None
        return first

    def amended(self, request: ModelRequest, fault: Fault) -> Amendment | None:
        """The request to send after this fault, which came before any part of an answer; `None` if none would help."""
        for amend in (self._in_other_api, self._in_other_form, self._with_smaller_images, self._without_tool_calls):
            if (amendment := amend(request, fault)) is not None:
                return amendment
        return None

    def _in_other_api(self, request: ModelRequest, fault: Fault) -> Amendment | None:
        other = other_api(fault, self.api.name, self._model)
        if other is None or self._left is not None or self._is_about_thoughts(request, fault):
            return None
        self._left = self.api, fault
        _log.warning(
            "%s is asked for %s in the API %r from now on, not in %r: it said %r.",
            self._where,
            self._model,
            other,
            self.api.name,
            _quoted(fault),
        )
        self.api = APIS[other](self._model, self._where)
        return Amendment(request)

    def _in_other_form(self, request: ModelRequest, fault: Fault) -> Amendment | None:
        """The same request in the form that the service takes, without a field, or without earlier thoughts."""
        api, said = self.api, f"{fault.param} {fault.detail}"
        if not _is_refusal(fault):
            return None
        if isinstance(api, MessagesApi) and api.shorten_answers(said):
            return Amendment(request)
        if fault.too_long is not None:
            return None
        if isinstance(api, ChatApi) and (
            form := next((one for one, words in _FORMS.items() if one not in api.forms and words.search(said)), None)
        ):
            api.forms.add(form)
            api.left_out.discard("messages.*.reasoning_content" if form == EMPTY_REASONING else "")
            return Amendment(request)
        body = api.body(request)
        known = [one for one in _FIELDS if one.api == api.name and has_field(body, one.path.split("."))]
        if named := next((one for one in known if fault.param.startswith(one.path)), None):
            return self._without_field(request, named.path)
        if self._is_about_thoughts(request, fault):
            self._thoughts_left_out.update(map(_digest, self._thoughts(request)))
            return Amendment(self._without_thoughts(request), _NO_THOUGHTS.format(self._model))
        meant = next((one for one in known if one.words.search(said)), None)
        return None if meant is None else self._without_field(request, meant.path)

    def _without_field(self, request: ModelRequest, path: str) -> Amendment:
        self.api.left_out.add(path)
        _log.info("%s does not take %s.", self.api.origin, path)
        told = path in _EFFORTS and request.effort is not None
        return Amendment(request, _NO_EFFORT.format(self._model, request.effort) if told else "")

    def _is_about_thoughts(self, request: ModelRequest, fault: Fault) -> bool:
        about = f"{fault.code} {fault.param} {fault.detail}"
        return _is_refusal(fault) and _BAD_THOUGHTS.search(about) is not None and bool(self._thoughts(request))

    def _thoughts(self, request: ModelRequest) -> list[WireMessage]:
        """The messages with provider items that the request contains."""
        return [one for one in request.messages if readable_items(one, self.api.name, self.api.origin)]

    def _without_thoughts(self, request: ModelRequest) -> ModelRequest:
        if not self._thoughts_left_out:
            return request
        return replace(request, messages=[self._without_refused(message) for message in request.messages])

    def _without_refused(self, message: WireMessage) -> WireMessage:
        if PROVIDER not in message or _digest(message) not in self._thoughts_left_out:
            return message
        return {name: value for name, value in message.items() if name != PROVIDER}

    def _with_smaller_images(self, request: ModelRequest, fault: Fault) -> Amendment | None:
        """Without some pictures if the request has too many bytes, and without any if the model takes none."""
        said = _quoted(fault).rstrip(".")
        if request.images and fault.too_large:
            left_out = _to_leave_out(request)
            self._pictures_left_out |= left_out
            pictures = "a picture" if len(left_out) == 1 else f"{len(left_out)} pictures"
            size = f"{self._where} takes no request of that size (it said: {said or fault.status})"
            return Amendment(self._without_pictures(request), f"Left out {pictures}: {size}.")
        if request.images and _is_refusal(fault) and _NO_IMAGES.search(f"{fault.detail} {fault.param}"):
            self.takes_images = False
            notice = f"{self._model} takes no images ({self._where} said: {said}). It is told their size."
            return Amendment(replace(request, images={}), notice)
        return None

    def _without_tool_calls(self, request: ModelRequest, fault: Fault) -> Amendment | None:
        if not request.tools or not refuses_tools(fault):
            return None
        self._without_tools = f"{self._where} said: {_quoted(fault).rstrip('.')}"
        return Amendment(replace(request, tools=()), self._notice())

    def _without_pictures(self, request: ModelRequest) -> ModelRequest:
        if not self._pictures_left_out.intersection(request.images):
            return request
        kept = {digest: data for digest, data in request.images.items() if digest not in self._pictures_left_out}
        return replace(request, images=kept)

    def _notice(self) -> str:
        others = self._others()[:SUGGESTED]
        advice = f"With tools there: {', '.join(others)}." if others else "`%agent models` lists those with tools."
        return f"{self._model} takes no tools ({self._without_tools}), so it answers without them. {advice}"


def _to_leave_out(request: ModelRequest) -> set[str]:
    """The pictures of a request that is too large: those before the newest message with some, or its own."""
    told = [[ref["digest"] for ref in message.get(IMAGES, ())] for message in request.messages]
    sent = [digests for digests in told if any(digest in request.images for digest in digests)]
    newest = set(sent[-1]) if sent else set()
    return set(request.images) - newest or set(request.images)


def _digest(message: dict[str, Any]) -> bytes:
    return hashlib.sha256(orjson.dumps(message[PROVIDER])).digest()


def _quoted(fault: Fault) -> str:
    return fault.detail[:_QUOTED]
