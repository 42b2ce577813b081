"""A fake OpenAI-compatible server that speaks Chat Completions and Responses, for tests of everything but the model.

In a test:

    with FakeOpenAI([call("run_python", code="1 + 1"), say("Two.")]) as server:
        environ = server.environment()          # OPENAI_BASE_URL, OPENAI_API_KEY, AGENT_KERNEL_MODEL

For a program of its own, `python -m agent_kernel.testing.fake_openai --port 0 --script FILE` prints its base URL. FILE
holds a JSON list of turns: `{"say": "Two."}`, `{"call": "run_python", "arguments": {"code": "1 + 1"}}`,
`{"calls": [{"call": ..., "arguments": ...}], "say": "Let me look."}` and
`{"status": 429, "retry_after": "1", "times": 2}`.

It runs in a thread of its own, so that the code under test may block or use another event loop. It listens on the
loopback address only.
"""

import argparse
import json
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from agent_kernel.models.base import ModelTurn
from agent_kernel.testing.fake_service import FakeService, Scripted
from agent_kernel.testing.scripted_model import requested, say
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


def read_script(path: Path) -> list[Scripted]:
    """Read a script file. Raises `ValueError` for an entry in none of the forms in the module's docstring."""
    return [_entry(entry) for entry in json.loads(path.read_text(encoding="utf-8"))]


def _entry(entry: dict[str, Any]) -> Scripted:
    match entry:
        case {"status": int(status)}:
            headers = {"retry_after": str(entry["retry_after"])} if "retry_after" in entry else {}
            return failure(status, entry.get("message", "scripted failure"), times=entry.get("times", 1), **headers)
        case {"calls": list(requested_calls)}:
            return _turn(requested_calls, entry)
        case {"call": str()}:
            return _turn([entry], entry)
        case {"say": str(text)}:
            return say(text)
        case _:
            raise ValueError(f"This is no turn of a script: {entry!r}")


def _turn(requested_calls: list[dict[str, Any]], entry: dict[str, Any]) -> ModelTurn:
    made = tuple(requested(one["call"], one.get("arguments", {})) for one in requested_calls)
    return ModelTurn(content=entry.get("say", ""), tool_calls=made)


def serve(module: str, description: str | None, make: type[FakeService], arguments: Sequence[str] | None) -> None:
    """Run a fake service as a program: print its address and serve until interrupted."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--script", type=Path, required=True)
    parser.add_argument("--repeat", action="store_true", help="begin the script again when it is through")
    options = parser.parse_args(arguments)
    server = make(read_script(options.script), port=options.port, repeat=options.repeat).start()
    sys.stdout.write(f"{server.address}\n")
    sys.stdout.flush()
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        server.stop()


def main(arguments: Sequence[str] | None = None) -> None:
    serve("agent_kernel.testing.fake_openai", __doc__, FakeOpenAI, arguments)


if __name__ == "__main__":
    main()
