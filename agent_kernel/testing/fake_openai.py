"""A fake OpenAI-compatible server that speaks Chat Completions and Responses, for tests of everything but the model.

In a test:

    with FakeOpenAI([call("run_python", code="1 + 1"), say("Two.")]) as server:
        environ = server.environment()          # OPENAI_BASE_URL, OPENAI_API_KEY, AGENT_KERNEL_MODEL

It runs in a thread of its own, so that the code under test may block or use another event loop. It listens on the
loopback address only.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from agent_kernel.testing.fake_service import FakeService
from agent_kernel.testing.wire import chat, responses
from agent_kernel.testing.wire.reply import Reply, failure
from agent_kernel.testing.wire.schemas import WrongRequest, check_chat_request, check_responses_request

FAKE_KEY = "sk-fake-0123456789abcdef"


class FakeOpenAI(FakeService):
    """Speaks Chat Completions and Responses; see `FakeService` for what its script may hold. A request that the
    official client could not have sent is refused, and `assert_consumed` raises."""

    routes: ClassVar = {"/v1/chat/completions": chat.streamed, "/v1/responses": responses.streamed}
    checks: ClassVar = {"/v1/chat/completions": check_chat_request, "/v1/responses": check_responses_request}

    def environment(self, model: str = "fake") -> dict[str, str]:
        """The environment variables that make this the default endpoint."""
        return {"OPENAI_BASE_URL": self.url, "OPENAI_API_KEY": FAKE_KEY, "AGENT_KERNEL_MODEL": model}

    def answer(self, path: str, headers: Mapping[str, str], body: dict[str, Any]) -> Reply:
        try:
            self.checks[path](body)
        except WrongRequest as error:
            self.wrong.append(str(error))
            return failure(400, f"wrong request: {error}")
        return super().answer(path, headers, body)
