"""Pages of the AI SDK that read slowly, or not at all."""

import asyncio
import json
from typing import Any

import pytest
from jupyter_server.serverapp import ServerApp

from agent_kernel.runtime.clients.ui_answers import IMAGE_CHARACTERS
from agent_kernel.testing import FakeOpenAI, call, say
from agent_kernel_server.ai_sdk import ChatHandler
from agent_kernel_server.app import AgentKernelServer
from tests.server.client import Api, Kernel
from tests.server.test_ai_sdk import asking
from tests.waiting import until


@pytest.mark.kernel
@pytest.mark.soak
async def test_a_client_that_reads_nothing_holds_up_neither_the_run_nor_the_memory(
    api: Api,
    extension: AgentKernelServer,
    jp_http_port: int,
    jp_serverapp: ServerApp,
    model: FakeOpenAI,
    kernel: Kernel,
) -> None:
    picture = "from IPython.display import display\nimport os\nfor _ in range(8):\n"
    picture += "    display({'image/png': os.urandom(700_000).hex()}, raw=True)"
    model.add(*(call("run_python", code=picture) for _ in range(2)), say("Done."))
    body = json.dumps(asking(kernel_id=kernel.kernel_id, policy="allow")).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", jp_http_port, limit=1_000)
    path = f"{jp_serverapp.base_url}agent-kernel/api/ai-sdk/chat"
    head = f"POST {path} HTTP/1.1\r\nHost: localhost:{jp_http_port}\r\nContent-Length: {len(body)}\r\n"
    head += f"Authorization: token {jp_serverapp.identity_provider.token}\r\nContent-Type: application/json\r\n\r\n"
    writer.write(head.encode() + body)
    assert (await reader.readline()).startswith(b"HTTP/1.1 200")
    service = extension.service
    assert service is not None
    [stream] = service.streams
    assert isinstance(stream, ChatHandler)
    connection: Any = stream.request.connection
    sent = 0

    async def watch() -> None:
        nonlocal sent
        while True:
            sent = max(sent, len(connection.stream._write_buffer))
            await asyncio.sleep(0.01)

    watching = asyncio.create_task(watch())
    async with asyncio.timeout(60):
        while [one["status"] for one in (await api("GET", "runs"))[1]] != ["complete"]:  # noqa: ASYNC110 -- over HTTP
            await asyncio.sleep(0.05)
    watching.cancel()
    assert service.streams == {stream}
    assert 0 < sent < 2 * IMAGE_CHARACTERS
    writer.close()
    await until(lambda: not service.streams)
