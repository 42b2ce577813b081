"""A fake of Anthropic's service that refuses what the real one refuses, with the same messages.

In a test:

    with FakeAnthropic([call("run_python", code="1 + 1"), say("Two.")]) as server:
        environ = server.environment()          # ANTHROPIC_BASE_URL, ANTHROPIC_API_KEY, AGENT_KERNEL_MODEL

For a program of its own, `python -m agent_kernel.testing.fake_anthropic --port 0 --script FILE` prints what
ANTHROPIC_BASE_URL is to be. FILE is as in `agent_kernel.testing.fake_openai`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from agent_kernel.testing.anthropic_rules import Refused, Transcripts, check_request
from agent_kernel.testing.fake_openai import serve
from agent_kernel.testing.fake_service import FakeService, Scripted
from agent_kernel.testing.wire import messages
from agent_kernel.testing.wire.reply import Reply
from agent_kernel.testing.wire.schemas import WrongRequest, check_messages_request

FAKE_ANTHROPIC_KEY = "sk-ant-fake-0123456789abcdef"


class FakeAnthropic(FakeService):
    """Speaks the Messages API; see `FakeService` for what its script may hold. A request that the official client could
    not have sent, or that the service refuses whatever was said before, is refused, and `assert_consumed` raises."""

    routes: ClassVar = {"/v1/messages": messages.streamed}

    def __init__(self, script: Iterable[Scripted] = (), **options: Any) -> None:
        super().__init__(script, **options)
        self._transcripts = Transcripts()

    @property
    def address(self) -> str:
        """The base URL as Anthropic's own client takes it, without a version."""
        return self.url.removesuffix("/v1")

    def environment(self, model: str = "fake") -> dict[str, str]:
        """The environment variables that make this the default endpoint."""
        return {
            "ANTHROPIC_BASE_URL": self.address,
            "ANTHROPIC_API_KEY": FAKE_ANTHROPIC_KEY,
            "AGENT_KERNEL_MODEL": model,
        }

    def answer(self, path: str, headers: Mapping[str, str], body: dict[str, Any]) -> Reply:
        if "authorization" not in headers and "x-api-key" not in headers:
            return messages.refusal(401, "authentication_error", "x-api-key header is required")
        try:
            check_messages_request(body)
            check_request(body, headers)
        except (WrongRequest, Refused) as error:
            self.wrong.append(str(error))
            return messages.refusal(400, "invalid_request_error", str(error))
        try:
            self._transcripts.check(body)
        except Refused as refused:
            return messages.refusal(400, "invalid_request_error", str(refused))
        reply = super().answer(path, headers, body)
        self._transcripts.remember(body, reply.body)
        return reply


def main(arguments: Sequence[str] | None = None) -> None:
    serve("agent_kernel.testing.fake_anthropic", __doc__, FakeAnthropic, arguments)


if __name__ == "__main__":
    main()
