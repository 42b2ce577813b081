"""Maps the names of APIs to their implementations."""

from collections.abc import Callable

from agent_kernel.models.anthropic import MessagesApi
from agent_kernel.models.api import Api
from agent_kernel.models.chat import ChatApi
from agent_kernel.models.responses import ResponsesApi
from agent_kernel.protocol.vocabulary import ApiName

_APIS: dict[ApiName, Callable[[], Api]] = {
    "chat": ChatApi,
    "messages": MessagesApi,
    "responses": ResponsesApi,
}


def make_api(name: ApiName) -> Api:
    """Make an `Api` object. Each model gets its own, because it may remember what the service refused."""
    return _APIS[name]()
