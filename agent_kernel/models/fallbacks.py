"""Fallbacks for refused requests: the same request in another API, without images, or without tools."""

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from agent_kernel.models.anthropic import MessagesApi
from agent_kernel.models.api import Amendment, Api
from agent_kernel.models.base import IMAGES, ModelRequest
from agent_kernel.models.chat import ChatApi
from agent_kernel.models.known import SUGGESTED
from agent_kernel.models.responses import ResponsesApi
from agent_kernel.models.service_faults import Fault
from agent_kernel.protocol.vocabulary import ApiName

_log = logging.getLogger(__name__)
_QUOTED = 200
"""The most characters of a service's refusal that a message quotes."""
APIS: Mapping[ApiName, type[Api]] = {"chat": ChatApi, "messages": MessagesApi, "responses": ResponsesApi}

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
    return fault.kind == "status" and fault.status in _REFUSALS and _NO_TOOLS.search(fault.detail) is not None


def refuses_images(fault: Fault) -> bool:
    words = f"{fault.detail} {fault.param}"
    return fault.kind == "status" and fault.status in _REFUSALS and _NO_IMAGES.search(words) is not None


class Fallbacks:
    """Remembers what the service of one model has refused, for the life of the process, and adapts requests to it."""

    def __init__(
        self, wire_name: str, where: str, api: ApiName, *, takes_tools: bool, others: Callable[[], list[str]]
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
        self._left_out: set[str] = set()
        """The digests of pictures with which a request was too large."""
        self.takes_images = True
        """False once the service has refused images. A line of text replaces each then."""

    @property
    def takes_tools(self) -> bool:
        return not self._without_tools

    def prepared(self, request: ModelRequest) -> tuple[ModelRequest, str]:
        """The request without parts that were refused before, and a notice about it for the user."""
        request = self._without_pictures(request)
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
        if amendment := self.api.amended(request, fault):  # first: it knows more of what is refused
            return amendment
        other = other_api(fault, self.api.name, self._model)
        if other is not None and self._left is None:
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
        if request.images and fault.too_large:
            left_out = _to_leave_out(request)
            self._left_out |= left_out
            said = _quoted(fault).rstrip(".") or str(fault.status)
            pictures = "a picture" if len(left_out) == 1 else f"{len(left_out)} pictures"
            notice = f"Left out {pictures}: {self._where} takes no request of that size (it said: {said})."
            return Amendment(self._without_pictures(request), notice)
        if request.images and refuses_images(fault):
            self.takes_images = False
            said = _quoted(fault).rstrip(".")
            notice = f"{self._model} takes no images ({self._where} said: {said}). It is told their size."
            return Amendment(replace(request, images={}), notice)
        if request.tools and refuses_tools(fault):
            self._without_tools = f"{self._where} said: {_quoted(fault).rstrip('.')}"
            return Amendment(replace(request, tools=()), self._notice())
        return None

    def _without_pictures(self, request: ModelRequest) -> ModelRequest:
        if not self._left_out.intersection(request.images):
            return request
        kept = {digest: data for digest, data in request.images.items() if digest not in self._left_out}
        return replace(request, images=kept)

    def _notice(self) -> str:
        others = self._others()[:SUGGESTED]
        advice = f" With tools there: {', '.join(others)}." if others else " `%agent models` lists those with tools."
        return f"{self._model} takes no tools ({self._without_tools}), so it answers without them.{advice}"


def _to_leave_out(request: ModelRequest) -> set[str]:
    """The pictures of a request that is too large: those before the newest message with some, or its own."""
    told = [[ref["digest"] for ref in message.get(IMAGES, ())] for message in request.messages]
    sent = [digests for digests in told if any(digest in request.images for digest in digests)]
    newest = set(sent[-1]) if sent else set()
    return set(request.images) - newest or set(request.images)


def _quoted(fault: Fault) -> str:
    return fault.detail[:_QUOTED]
