"""The APIs of model services, by name."""

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
    """A new one for each model: it may remember what the model's service refused."""
    return _APIS[name]()
