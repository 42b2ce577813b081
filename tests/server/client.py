"""What the tests drive the server with: an HTTP client, a WebSocket client and a kernel client."""

import asyncio
import json
from collections.abc import Awaitable
from typing import Any, Protocol, TypeVar, cast

import orjson
from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_server.services.kernels.kernelmanager import MappingKernelManager
from tornado.httpclient import HTTPClientError, HTTPResponse
from tornado.websocket import WebSocketClientConnection

from tests.waiting import look_until

Frame = dict[str, Any]
T = TypeVar("T")


class Fetch(Protocol):
    """An authenticated request to the test's server, by the parts of its path. Raises `HTTPClientError`."""

    def __call__(self, *parts: str, **options: Any) -> Awaitable[HTTPResponse]: ...


async def open_notebook(fetch: Fetch, path: str, kernel_id: str | None = None) -> str:
    """Begin a session as a page does, with a kernel that runs or one of its own; the kernel's id."""
    kernel = {"name": "python3"} if kernel_id is None else {"id": kernel_id}
    body = {"path": path, "name": path.rpartition("/")[2], "type": "notebook", "kernel": kernel}
    answer = await fetch("api", "sessions", method="POST", body=json.dumps(body))
    return str(json.loads(answer.body)["kernel"]["id"])


async def chat_chunks(fetch: Fetch, body: Any) -> list[dict[str, Any]]:
    """The whole answer of the AI SDK's endpoint to a request."""
    response = await fetch("agent-kernel", "api", "ai-sdk", "chat", method="POST", body=json.dumps(body))
    assert response.headers["x-vercel-ai-ui-message-stream"] == "v1"
    assert response.headers["Content-Type"] == "text/event-stream"
    lines = response.body.decode().split("\n\n")
    assert lines[-2:] == ["data: [DONE]", ""]
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-2] if not line.startswith(":")]


def chat_text(chunks: list[dict[str, Any]]) -> str:
    return "".join(one["delta"] for one in chunks if one["type"] == "text-delta")


class Api:
    """`status, body = await api("GET", "status")`; bodies are JSON."""

    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch

    async def __call__(self, method: str, *path: str, body: Any = None, **options: Any) -> tuple[int, Any]:
        if method == "POST":
            options["body"] = body if isinstance(body, str | bytes) else json.dumps(body if body is not None else {})
        try:
            answer = await self._fetch("agent-kernel", "api", *path, method=method, **options)
        except HTTPClientError as error:
            return error.code, _json(error.response.body if error.response is not None else b"")
        return answer.code, _json(answer.body)

    async def new_conversation(self, **fields: Any) -> str:
        status, body = await self("POST", "conversations", body=fields)
        assert status == 201, body
        return str(body["conversation_id"])

    async def start_run(self, conversation_id: str, content: str = "Go on.") -> str:
        status, body = await self("POST", "conversations", conversation_id, "runs", body={"content": content})
        assert status == 201, body
        return str(body["run_id"])

    async def get(self, *path: str, **params: str) -> Any:
        """What is there."""
        status, body = await self("GET", *path, params=params)
        assert status == 200, body
        return body

    async def listed(self, what: str, count: int = 1, *, seconds: float = 60.0, **params: str) -> list[Any]:
        """A list, once it has so many entries."""

        async def look() -> list[Any]:
            found: list[Any] = await self.get(what, **params)
            return found if len(found) >= count else []

        return await look_until(look, f"{count} of {what}", seconds)

    async def pending(self) -> list[Any]:
        return list(await self.get("approvals", state="awaiting_approval"))

    async def begin(self, kernel: "Kernel | None" = None, content: str = "Go on.", policy: str | None = None) -> str:
        """A conversation with a run that has started, in this kernel or without one."""
        conversation_id = await self.new_conversation(kernel_id=kernel.kernel_id if kernel is not None else None)
        if policy is not None:
            assert (await self("POST", "conversations", conversation_id, "policy", body={"mode": policy}))[0] == 200
        await self.start_run(conversation_id, content)
        return conversation_id

    async def next_approval(self, seconds: float = 60.0) -> Any:
        """The first call that waits for a decision."""
        return (await self.all_waiting(1, seconds))[0]

    async def all_waiting(self, count: int, seconds: float = 60.0) -> list[Any]:
        """The calls that wait for a decision, once there are so many."""
        return await self.listed("approvals", count, seconds=seconds, state="awaiting_approval")

    async def decide(self, waiting: Any = None, *, approved: bool = True, **decision: Any) -> Any:
        """Decide on a call that waits, or on the first one, and return it as it waited."""
        call = waiting or await self.next_approval()
        shown = {"approved": approved, "digest": call["digest"], **decision}
        status, body = await self("POST", "approvals", call["approval_id"], body=shown)
        assert status == 200, body
        return call

    async def ended(self, conversation_id: str) -> Any:
        """The conversation once no run of it goes on."""

        async def look() -> Any:
            _, view = await self("GET", "conversations", conversation_id)
            over = all(run["status"] not in ("queued", "running") for run in view.get("runs", ()))
            return view if view.get("runs") and over else None

        return await look_until(look, "the run to end")


def _json(body: bytes) -> Any:
    return orjson.loads(body) if body else None  # 10,000 calls in one body: the loop is shared with the server


class Client:
    """A plain WebSocket client that remembers all frames."""

    def __init__(self, socket: WebSocketClientConnection) -> None:
        self._socket = socket
        self._ended = False
        self.frames: list[Frame] = []

    async def next(self, seconds: float = 60.0) -> Frame:
        async with asyncio.timeout(seconds):
            message = await self._socket.read_message()
        assert message is not None, "the server closed the channel"
        frame: Frame = json.loads(message)
        self.frames.append(frame)
        return frame

    async def until(self, kind: str, seconds: float = 60.0) -> Frame:
        """The next frame of this type."""
        async with asyncio.timeout(seconds):
            while (frame := await self.next(seconds))["type"] != kind:
                pass
        return frame

    async def closed(self) -> bool:
        """Read what is left, up to the end."""
        async with asyncio.timeout(60):
            while not self._ended:
                self._ended = await self._socket.read_message() is None
        return True

    @property
    def close_code(self) -> int | None:
        return self._socket.close_code

    async def send(self, frame: Frame | str | bytes) -> None:
        text = frame if isinstance(frame, str | bytes) else json.dumps(frame)
        await self._socket.write_message(text, binary=isinstance(text, bytes))

    async def close(self) -> None:
        """Leave, and wait until the server has let go."""
        self._socket.close()
        await self.closed()


class OpenChannel(Protocol):
    """Opens a conversation's channel. `options` are those of the request."""

    async def __call__(self, conversation_id: str, **options: Any) -> Client: ...


class Kernel:
    """What a user does in a notebook: runs cells. It has its own channels to the kernel, as a page has."""

    def __init__(self, kernel_id: str, kernel_manager: MappingKernelManager) -> None:
        self.kernel_id = kernel_id
        self._is_heard = False
        self._client = cast(AsyncKernelClient, kernel_manager.get_kernel(kernel_id).client())
        self._client.start_channels(stdin=False, hb=False)

    async def run(self, code: str, seconds: float = 60.0, **options: Any) -> list[Any]:
        """Run a cell to its end; its outputs as IOPub messages. `options` are those of `start`."""
        if not self._is_heard:
            await self.ready()
        message_id = self.start(code, **options)
        outputs: list[Any] = []
        async with asyncio.timeout(seconds):
            while True:
                message = await self._client.get_iopub_msg()
                if message["parent_header"].get("msg_id") != message_id:
                    continue
                if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                    return outputs
                outputs.append(message)

    def start(self, code: str, cell_id: str | None = None, page: str | None = None) -> str:
        """`cell_id`: as JupyterLab names it; `page`: as each notebook of a page names itself."""
        content = {"code": code, "silent": False, "store_history": True, "user_expressions": {}}
        metadata = {} if cell_id is None else {"cellId": cell_id, "deletedCells": []}
        message = self._client.session.msg(
            "execute_request", content | {"allow_stdin": True, "stop_on_error": True}, metadata=metadata
        )
        message["header"]["session"] = page or message["header"]["session"]
        self._client.shell_channel.send(message)
        message_id: str = message["header"]["msg_id"]
        return message_id

    async def text(self, code: str) -> str:
        """What a cell prints."""
        outputs = await self.run(code)
        assert "error" not in [one["msg_type"] for one in outputs], outputs
        return "".join(one["content"]["text"] for one in outputs if one["msg_type"] == "stream")

    async def ready(self) -> None:
        """Wait until the kernel answers and is heard."""
        await self._client.wait_for_ready(timeout=60)
        self._is_heard = True

    async def close(self) -> None:
        self._client.stop_channels()
