"""`ClientModel`: stands in for the model of a run that an agent outside asked for. It asks for that one call."""

from collections.abc import AsyncIterator

from agent_kernel.models.base import ModelFacts, ModelItem, ModelRequest, ModelTurn, RequestedCall

FACTS = ModelFacts(images=True, stands_in=True)


class ClientModel:
    """`name` is the client's. It keeps nothing, so a run goes on with another one after a restart."""

    recorded = False
    facts = FACTS

    def __init__(self, name: str, call: RequestedCall) -> None:
        self.name = name
        self._call = call

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelItem]:
        if request.messages[-1]["role"] == "tool":
            yield ModelTurn(content=f"The result is for {self.name}.")
        else:
            yield ModelTurn(content="", tool_calls=(self._call,))

    async def aclose(self) -> None:
        pass
