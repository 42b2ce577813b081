"""A bare client of a notebook's kernel: what an agent's step and call cost without the agent, its log and its cards."""

import http.client
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from jupyter_client.blocking.client import BlockingKernelClient

from benchmarks.frame import ModelServer
from tests.e2e.lab import LabServer

SECONDS = 60
CLOCK = "import time\nat = time.time_ns()"
Message = dict[str, Any]


class BareKernel:
    """Runs code in a kernel of a Jupyter server on this machine, over ZeroMQ, past the server."""

    def __init__(self, client: BlockingKernelClient) -> None:
        self._client = client

    def execute(self, code: str, value: str = "None") -> str:
        """Returns with the kernel's reply: the representation of a value after the code has run."""
        return self.told(self._client.execute(code, store_history=False, user_expressions={"value": value}))

    def told(self, request: str) -> str:
        """Wait for the reply to a request: the representation of its value."""
        while (reply := self._client.get_shell_msg(timeout=SECONDS))["parent_header"]["msg_id"] != request:
            continue
        return str(reply["content"]["user_expressions"]["value"]["data"]["text/plain"])

    def ask_clock(self) -> str:
        """Send a request whose value is the time of its first line, in nanoseconds since the epoch."""
        request: str = self._client.execute(CLOCK, store_history=False, user_expressions={"value": "at"})
        return request

    def clock(self) -> float:
        """Milliseconds from a request to its first line."""
        sent = time.time_ns()
        return (int(self.told(self.ask_clock())) - sent) / 1e6

    def go_on(self, model: ModelServer, name: str) -> None:
        """Ask the model, run the code of its call, and ask again with the outcome, until it calls no more."""
        place = urlsplit(model.url)
        connection = http.client.HTTPConnection(str(place.hostname), place.port, timeout=SECONDS)
        messages: list[Message] = [{"role": "user", "content": "Go on."}]
        while call := _asked(connection, f"{place.path}/chat/completions", name, messages):
            self.execute(json.loads(call["function"]["arguments"])["code"])
            messages += [
                {"role": "assistant", "content": "", "tool_calls": [call]},
                {"role": "tool", "tool_call_id": call["id"], "content": ""},
            ]
        connection.close()


@contextmanager
def bare_kernel(lab: LabServer, kernel_id: str) -> Iterator[BareKernel]:
    client = BlockingKernelClient(connection_file=str(lab.home / "runtime" / f"kernel-{kernel_id}.json"))
    client.load_connection_file()
    client.start_channels(iopub=False, stdin=False, hb=False, control=False)
    try:
        yield BareKernel(client)
    finally:
        client.stop_channels()


def _asked(
    connection: http.client.HTTPConnection, path: str, model: str, messages: Sequence[Message]
) -> Message | None:
    """The call of the model's answer."""
    body = json.dumps({"model": model, "stream": True, "messages": messages})
    connection.request("POST", path, body, {"content-type": "application/json"})
    call: Message | None = None
    for line in connection.getresponse().read().splitlines():
        if not line.startswith(b"data: {"):
            continue
        for choice in json.loads(line[6:])["choices"]:
            for piece in choice["delta"].get("tool_calls", ()):
                if call is None:
                    call = {"id": piece["id"], "type": "function", "function": piece["function"]}
                else:
                    call["function"]["arguments"] += piece["function"]["arguments"]
    return call
