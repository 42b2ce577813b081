"""One MCP server: the task that owns its connection, its tools, and calls of them. It loads `mcp`."""

import asyncio
import tempfile
import warnings
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from logging import Logger
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

import httpx2
import mcp_types as types
from mcp.client._input_required import InputRequiredRoundsExceededError
from mcp.client.client import Client
from mcp.client.session import ClientRequestContext, IncomingMessage
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp.shared.exceptions import MCPError, UrlElicitationRequiredError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import FileUrl, ValidationError

from agent_kernel.errors import ToolDeclarationError
from agent_kernel.own_thread import in_own_thread
from agent_kernel.protocol.calls import ApprovedCall, Outcome
from agent_kernel.protocol.lists import ServerState
from agent_kernel.tools.arguments import parse
from agent_kernel.tools.declaration import ToolDeclaration
from agent_kernel.tools.executor import Ask, OutputSink
from agent_kernel.tools.server_tools import declared, definition_digest
from agent_kernel.version import __version__
from agent_kernel_server.mcp_tools.call_results import CallDisplay, outcome_of
from agent_kernel_server.mcp_tools.configuration import ServerConfig
from agent_kernel_server.mcp_tools.questions import NO_ADDRESSES, answer_to, refuse_address
from agent_kernel_server.mcp_tools.server_connection import opened
from agent_kernel_server.mcp_tools.sign_in import PERSON_SECONDS, SignIn

CONNECT_SECONDS = 60.0
"""A first start may install the server, as with npx and uvx."""
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds before a server that is down is tried again."""
MOST_TOOLS, MOST_PAGES = 500, 50
MOST_SAID = 500
_LOST = "The MCP server {name} was lost while it had the call."
_ENDLESS = "The server gave no result, and wanted to be asked again"
_REDEFINED = (
    "The server has changed or removed this tool since the run began. Nothing ran; the next run has it as it is."
)


@dataclass(frozen=True, slots=True)
class OpenCall:
    """A call that the server has."""

    display: CallDisplay
    ask: Ask
    folder: Path
    questions: set[asyncio.Task[types.ElicitResult | types.ErrorData]] = field(default_factory=set)


_current: ContextVar[OpenCall | None] = ContextVar("_current", default=None)


class McpServer:
    """Used in the server's event loop only. `start` begins its task, which ends when it is cancelled."""

    def __init__(self, config: ServerConfig, root: Path, log: Logger, redirect: str, tokens: Path) -> None:
        """For one that wants a person to sign in: `redirect` is where their browser is sent back to, `tokens` the file
        for what they get there."""
        self.config = config
        self._root = root
        self._log = log
        wants_none = config.command or any(name.lower() == "authorization" for name in config.headers)
        self.sign_in = None if wants_none else SignIn(config.url, redirect, tokens, self._on_address)
        self._limit: asyncio.Timeout | None = None
        self.state: ServerState = "starting"
        self.error = ""
        self.notes: tuple[str, ...] = ()
        self.tools: tuple[ToolDeclaration, ...] = ()
        """As the server listed them last, also while it is down."""
        self.tried = asyncio.Event()
        """Set once it has been connected, or that has failed."""
        self._wanted = asyncio.Event()
        self._changed = asyncio.Event()
        """The tools have changed, or the connection has ended."""
        self._is_open = False
        self._client: Client | None = None
        self._calls: list[OpenCall] = []
        self._turn = asyncio.Lock()
        self._folder = root
        self._asked_roots = False

    async def run(self) -> None:
        """Keep it connected, until cancelled."""
        pause = FIRST_PAUSE
        while True:
            connected = await self._connect_and_serve()
            pause = FIRST_PAUSE if connected else min(2 * pause, LONGEST_PAUSE)
            self.tried.set()
            self._wanted.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._wanted.wait()

    async def _connect_and_serve(self) -> bool:
        """One connection, to its end. Returns whether there was one."""
        self.state, self._is_open = "starting", True
        self._changed.clear()
        was_ready = False
        with tempfile.TemporaryFile("w+", errors="replace") as said:
            try:
                auth = self.sign_in.auth if self.sign_in is not None else None
                transport = opened(self.config, self._root, said, auth, self._on_end)
                async with asyncio.timeout(CONNECT_SECONDS) as self._limit, self._made_client(transport) as client:
                    await self._list(client)
                    self._limit.reschedule(None)
                    self._client, self.state, self.error, was_ready = client, "ready", "", True
                    self.tried.set()
                    await self._follow(client)
                error = "It has ended."
            except TimeoutError:
                error = f"It did not answer within {CONNECT_SECONDS:g} s."
            except Exception as failure:  # noqa: BLE001 -- whatever a server can do; it is shown, and tried again
                self._log.debug("The MCP server %s failed", self.config.name, exc_info=failure)
                error = _why(self.config, failure)
            finally:
                self._client = None
            self.error = " ".join(part for part in (error, await asyncio.to_thread(_end_of, said)) if part)[:MOST_SAID]
        self.state = "down"
        self._log.warning("The MCP server %s is down: %s", self.config.name, self.error)
        return was_ready

    def _made_client(self, transport: Any) -> Client:
        return Client(
            transport,
            client_info=types.Implementation(name="agent-kernel", version=__version__),
            list_roots_callback=self._on_roots,
            logging_callback=self._on_log,
            log_level="info",
            message_handler=self._on_message,
            elicitation_callback=self._on_question,
            cache=None,
        )

    async def _follow(self, client: Client) -> None:
        """Until the connection ends, list the tools again whenever they have changed."""
        listening = asyncio.create_task(self._listen(client))
        try:
            while True:
                await self._changed.wait()
                self._changed.clear()
                if not self._is_open:
                    return
                await self._list(client)
        finally:
            listening.cancel()
            await asyncio.wait({listening})

    async def _listen(self, client: Client) -> None:
        """Have the server say when its tools change. Earlier versions of the protocol do so unasked."""
        with suppress(MCPError, SubscriptionLost, ListenNotSupportedError):
            async with client.listen(tools_list_changed=True) as changes:
                async for _ in changes:
                    self._changed.set()

    def _on_address(self, address: str) -> None:
        """A person is to sign in, or has."""
        if self._limit is not None and self._client is None:
            seconds = PERSON_SECONDS if address else CONNECT_SECONDS
            self._limit.reschedule(asyncio.get_running_loop().time() + seconds)
            self.state = "sign in" if address else "starting"
        self.error = f"Sign in at {address}" if address else ""
        self.tried.set()

    def _on_end(self) -> None:
        self._is_open = False
        self._changed.set()

    async def _list(self, client: Client) -> None:
        """Raises whatever is wrong with the server's answer."""
        # A result is data for the model, bounded as any. The package would check it by patterns of the server's, which
        # can take for ever.
        client.session.validate_tool_result = _accepted  # type: ignore[method-assign]  # docs/decisions/hooks.md
        listed: list[types.Tool] = []
        cursor: str | None = None
        for _ in range(MOST_PAGES):
            page = await client.list_tools(cursor=cursor)
            listed += page.tools
            cursor = page.next_cursor
            if cursor is None or len(listed) > MOST_TOOLS:
                break
        self.tools, self.notes = await in_own_thread(lambda: self._declared(listed))

    def _declared(self, listed: Sequence[types.Tool]) -> tuple[tuple[ToolDeclaration, ...], tuple[str, ...]]:
        """What can be offered of it, and why the rest can't."""
        found: dict[str, ToolDeclaration] = {}
        notes = [f"It lists more than {MOST_TOOLS} tools."] if len(listed) > MOST_TOOLS else []
        for tool in listed[:MOST_TOOLS]:
            hints = ("destructive",) if tool.annotations and tool.annotations.destructive_hint else ()
            try:
                one = declared(
                    self.config.name, tool.name, tool.description or "", tool.input_schema, hints, self.config.timeout
                )
            except (ToolDeclarationError, RecursionError) as fault:
                notes.append(str(fault)[:MOST_SAID])
                continue
            if one.name in found:
                notes.append(f"It lists two tools named {tool.name[:80]!r}: the first one counts.")
            found.setdefault(one.name, one)
        return tuple(found.values()), tuple(notes[:20])

    # Calls

    async def call(
        self, call: ApprovedCall, tool: ToolDeclaration, folder: Path, emit: OutputSink, ask: Ask
    ) -> Outcome:
        """As `ServerTools.call`."""
        client = self._client
        if client is None:
            self._wanted.set()
            return Outcome("error", f"The server {self.config.name} is {self.state}. {self.error} Nothing ran.")
        now = next((one for one in self.tools if one.name == tool.name), None)
        if now is None or definition_digest(now) != definition_digest(tool):
            return Outcome("error", _REDEFINED)
        assert tool.origin is not None
        display = CallDisplay(call.approval_id, emit)
        # Before 2026-07-28 a server's question does not say of which call it is, so there is one at a time.
        says_whose = client.protocol_version in MODERN_PROTOCOL_VERSIONS
        async with nullcontext() if says_whose else self._turn:
            if self._client is not client:
                return Outcome("error", f"The server {self.config.name} was lost before it had the call. Nothing ran.")
            return await self._send(client, call, tool.origin.tool, OpenCall(display, ask, folder), emit)

    async def _send(
        self, client: Client, call: ApprovedCall, name: str, opened_call: OpenCall, emit: OutputSink
    ) -> Outcome:
        token = _current.set(opened_call)
        self._calls.append(opened_call)
        try:
            await self._show_roots(client, opened_call.folder)
            on_progress = opened_call.display.on_progress
            result = await client.call_tool(name, parse(call.arguments_json), progress_callback=on_progress)
        except MCPError as error:
            return self._failed(error, opened_call.display)
        except InputRequiredRoundsExceededError as error:
            return Outcome("error", f"{_ENDLESS} more than {error.max_rounds} times.")
        except ValidationError:
            return Outcome("error", "The server's answer is not one that the protocol has.")
        except (RuntimeError, OSError) as error:
            return Outcome("unknown", f"{_LOST.format(name=self.config.name)} {words_of(error)}")
        finally:
            self._calls.remove(opened_call)
            _current.reset(token)
            for question in list(opened_call.questions):  # their cards end with the call
                question.cancel()
        return outcome_of(result, emit)

    def _failed(self, error: MCPError, display: CallDisplay) -> Outcome:
        if error.code == types.CONNECTION_CLOSED or self._client is None:
            return Outcome("unknown", _LOST.format(name=self.config.name))
        if error.message == "Session terminated":  # the package's words for HTTP 404 in a session
            self._on_end()
            return Outcome("error", "The server had ended the session. Nothing ran; it is connected again.")
        if error.code == types.URL_ELICITATION_REQUIRED:
            with suppress(ValidationError, AttributeError, TypeError):  # whatever the server says of it
                for wanted in UrlElicitationRequiredError.from_error(error.error).elicitations:
                    refuse_address(wanted, display.say)
            return Outcome("error", NO_ADDRESSES)
        return Outcome("error", error.message[:10_000] or f"The server answered with the error {error.code}.")

    def _asking(self) -> OpenCall | None:
        """The call for which a server says or asks something: that of the same task, or the latest."""
        return _current.get() or (self._calls[-1] if self._calls else None)

    # What the server says and asks

    async def _on_message(self, message: IncomingMessage) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._changed.set()

    async def _on_log(self, params: types.LoggingMessageNotificationParams) -> None:
        if (call := self._asking()) is not None:
            call.display.log(params.level, params.logger, params.data)

    async def _on_question(
        self,
        context: ClientRequestContext,  # noqa: ARG002 -- the package's signature
        params: types.ElicitRequestParams,
    ) -> types.ElicitResult | types.ErrorData:
        call = self._asking()
        if call is None:
            return types.ElicitResult(action="decline")
        question = asyncio.create_task(answer_to(params, self.config.name, call.ask, call.display.say))
        call.questions.add(question)
        question.add_done_callback(call.questions.discard)
        await asyncio.wait({question})
        return types.ElicitResult(action="cancel") if question.cancelled() else question.result()

    async def _on_roots(self, context: ClientRequestContext) -> types.ListRootsResult | types.ErrorData:  # noqa: ARG002 -- the package's signature
        call = _current.get()
        folder = call.folder if call is not None else self._folder
        self._asked_roots = True
        return types.ListRootsResult(roots=[types.Root(uri=FileUrl(folder.as_uri()), name=folder.name)])

    async def _show_roots(self, client: Client, folder: Path) -> None:
        """Tell a server that asks for roots that they are this notebook's folder now."""
        if folder == self._folder:
            return
        self._folder = folder
        if self._asked_roots:
            with warnings.catch_warnings():  # earlier versions of the protocol have it
                warnings.simplefilter("ignore")
                telling = client.session.send_roots_list_changed()
            await telling


async def _accepted(name: str, result: types.CallToolResult) -> None:
    """In place of the package's check of a result."""


def _why(config: ServerConfig, failure: BaseException) -> str:
    """Why there was no connection. Of an address without its path, in which a key may be."""
    if not isinstance(_first(failure), httpx2.ConnectError):
        return words_of(failure)
    address = urlsplit(config.url)
    return f"Nothing answers at {address.scheme}://{address.netloc.rpartition('@')[2]}. Is the server running there?"


def words_of(error: BaseException) -> str:
    """What went wrong, in one line."""
    error = _first(error)
    text = " ".join(str(error).split())
    return (text or type(error).__name__)[:MOST_SAID]


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _end_of(said: IO[str]) -> str:
    said.seek(0)
    return " ".join(said.read(100_000).split())[-MOST_SAID:]
