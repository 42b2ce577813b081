"""The tools and resources as an MCP server of the `mcp` package. Imported with the first request, as that is heavy."""

import asyncio
import json
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote

from mcp import types
from mcp.server.context import ServerRequestContext
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError

from agent_kernel.errors import AgentKernelError, ToolFailed
from agent_kernel.models.redaction import Secrets
from agent_kernel.protocol.mcp import Handler, mcp_server
from agent_kernel.tools.declaration import ToolDeclaration
from agent_kernel.tools.review.hidden import reveal
from agent_kernel.version import __version__
from agent_kernel_server.mcp_server.call_answers import open_text, read_result
from agent_kernel_server.mcp_server.notebooks import Place
from agent_kernel_server.mcp_server.outside_calls import TOOLS, Caller, ClientCalls

WAIT_SECONDS = 25.0
"""The longest that a request is held up. Clients give up on a silent call, some after 60 s."""
PROGRESS_SECONDS = 5.0
NAME_CHARACTERS = 60
CALLER = "agent_kernel.caller"
NOTEBOOKS, CALLS = "agent-kernel://notebooks/", "agent-kernel://calls/"
_PLACES: dict[str, Any] = {
    "notebook_path": {"type": "string", "description": "The notebook, by its path as list_notebooks gives it."},
    "kernel_id": {"type": "string", "description": "Instead of notebook_path: a running kernel."},
}


@dataclass(slots=True)
class Request:
    """What the HTTP request that brought a message knows: who may do what, and what its response will deliver."""

    user: str | None
    may_execute: bool
    delivers: set[str] = field(default_factory=set)
    """The handles of the calls whose results are in the response."""


Context = ServerRequestContext[Any, Any]


def make_sessions(calls: ClientCalls, secrets: Secrets) -> StreamableHTTPSessionManager:
    tools = _Tools(calls, secrets)
    handlers: dict[str, Handler] = {
        "tools/list": tools.list_tools,
        "tools/call": tools.call_tool,
        "resources/list": tools.list_resources,
        "resources/templates/list": tools.list_templates,
        "resources/read": tools.read_resource,
    }
    return StreamableHTTPSessionManager(mcp_server(__version__, handlers.__getitem__), max_sessions=1_000)


class _Tools:
    def __init__(self, calls: ClientCalls, secrets: Secrets) -> None:
        self._calls = calls
        self._secrets = secrets

    async def list_tools(self, _: Context, __: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=_declared())

    async def call_tool(self, context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        """Refusals are results too: a model can read those."""
        began = time.monotonic()
        arguments = dict(params.arguments or {})
        try:
            if params.name == "list_notebooks":
                found = {"notebooks": await self._calls.notebooks.listed()}
                return _text_result(json.dumps(found, ensure_ascii=False), structured_content=found)
            if not _request(context).may_execute:
                raise ToolFailed("This user may look, but not run anything here.")
            if params.name == "wait_for_call":
                return await self._wait_for_call(context, arguments, began)
            if params.name not in TOOLS:
                raise ToolFailed(f"There is no tool {params.name[:80]!r}.")
            handle, place, repeated = await self._ask(context, params.name, arguments)
            return await self._answer(context, handle, place, began, repeated=repeated)
        except AgentKernelError as error:
            return _text_result(str(error), failed=True)

    async def _ask(self, context: Context, name: str, arguments: dict[str, Any]) -> tuple[str, Place, bool]:
        place = await self._calls.notebooks.find(arguments.pop("notebook_path", None), arguments.pop("kernel_id", None))
        # A call that has begun to be asked is asked to the end, also when its client closes the request.
        asking = asyncio.create_task(self._calls.ask(_caller(context), place, name, arguments))
        asked = await asyncio.shield(asking)
        return asked.handle, place, asked.repeated

    async def _wait_for_call(self, context: Context, arguments: dict[str, Any], began: float) -> types.CallToolResult:
        handle, page = arguments.get("handle"), arguments.get("page", 1)
        if not isinstance(handle, str) or not isinstance(page, int):
            raise ToolFailed("handle is the text after `handle:`, and page a number from 1 on.")
        place = await self._calls.find(_caller(context), handle.strip())
        return await self._answer(context, handle.strip(), place, began, page=page)

    async def _answer(
        self, context: Context, handle: str, place: Place, began: float, *, repeated: bool = False, page: int = 1
    ) -> types.CallToolResult:
        """The result of a call, or its handle where it does not end in time."""
        while not await self._calls.wait(handle, min(PROGRESS_SECONDS, began + WAIT_SECONDS - time.monotonic())):
            if (waited := time.monotonic() - began) >= WAIT_SECONDS:
                runtime = await self._calls.runtime()
                run = await runtime.run(handle)
                calls = [call for call, _, _ in await runtime.calls_with_pictures(run)]
                return _text_result(open_text(run, calls, place, repeated=repeated))
            await context.session.report_progress(waited, WAIT_SECONDS, f"Waits for the user in {place.name}.")
        runtime = await self._calls.runtime()
        result = await read_result(runtime, await runtime.run(handle), self._secrets)
        _request(context).delivers.add(handle)
        text = result.page(page, f'wait_for_call with {{{{"handle": "{handle}", "page": {{}}}}}}')
        if repeated:
            text = f"You have sent this call before and did not get its result. It was not run again.\n{text}"
        content: list[types.ContentBlock] = [types.TextContent(text=text)]
        if page == 1:
            content += result.pictures
        return types.CallToolResult(content=content, is_error=result.failed)

    # Resources

    async def list_resources(self, _: Context, __: types.PaginatedRequestParams | None) -> types.ListResourcesResult:
        notebooks = [one["notebook_path"] for one in await self._calls.notebooks.listed() if "notebook_path" in one]
        listed = [
            types.Resource(uri=f"{NOTEBOOKS}{quote(path)}", name=path, mime_type="text/plain") for path in notebooks
        ]
        return types.ListResourcesResult(resources=listed)

    async def list_templates(
        self, _: Context, __: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        notebook = types.ResourceTemplate(
            uri_template=f"{NOTEBOOKS}{{+path}}",
            name="notebook",
            description="The cells of a notebook with their outputs, as read_notebook tells them.",
            mime_type="text/plain",
        )
        outputs = types.ResourceTemplate(
            uri_template=f"{CALLS}{{handle}}/{{page}}",
            name="outputs",
            description="What a call of yours put out: a page of its text, and with the first its pictures.",
        )
        return types.ListResourceTemplatesResult(resource_templates=[notebook, outputs])

    async def read_resource(
        self, context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        uri, began = str(params.uri), time.monotonic()
        try:
            if not _request(context).may_execute:
                raise ToolFailed("This user may not read notebooks here.")
            if uri.startswith(NOTEBOOKS):
                arguments = {"notebook_path": unquote(uri.removeprefix(NOTEBOOKS))}
                handle, place, repeated = await self._ask(context, "read_notebook", arguments)
                answer = await self._answer(context, handle, place, began, repeated=repeated)
            elif uri.startswith(CALLS):
                handle, _, page = uri.removeprefix(CALLS).partition("/")
                asked = {"handle": handle, "page": int(page) if page.isascii() and page.isdigit() else 1}
                answer = await self._wait_for_call(context, asked, began)
            else:
                raise ToolFailed(f"There is no resource {uri[:200]!r}.")
        except AgentKernelError as error:
            raise MCPError(code=types.INVALID_PARAMS, message=str(error), data={"uri": uri}) from None
        return types.ReadResourceResult(contents=[_contents(uri, one) for one in answer.content])


def _contents(uri: str, block: types.ContentBlock) -> types.TextResourceContents | types.BlobResourceContents:
    if isinstance(block, types.ImageContent):
        return types.BlobResourceContents(uri=uri, mime_type=block.mime_type, blob=block.data)
    assert isinstance(block, types.TextContent)
    return types.TextResourceContents(uri=uri, mime_type="text/plain", text=block.text)


def _request(context: Context) -> Request:
    assert context.request is not None  # all come over HTTP
    request: Request = context.request.scope[CALLER]
    return request


def _caller(context: Context) -> Caller:
    params = context.session.client_params
    said = reveal(" ".join((params.client_info.name if params is not None else "").split()))
    return Caller(said[:NAME_CHARACTERS] or "An agent without a name", _request(context).user)


def _text_result(text: str, *, failed: bool = False, **more: Any) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=text)], is_error=failed, **more)


def _declared() -> list[types.Tool]:
    looks = types.ToolAnnotations(read_only_hint=True, open_world_hint=False)
    return [
        types.Tool(
            name="list_notebooks",
            description="List the notebooks and kernels of this Jupyter server: paths, kernels, and whether they run.",
            input_schema={"type": "object", "properties": {}},
            annotations=looks,
        ),
        *map(_tool, TOOLS.values()),
        types.Tool(
            name="wait_for_call",
            description=(
                "Get the result of a call that gave a handle. Where it has not ended after 25 s, it gives the same "
                "handle: ask again. `page` is for results that are too long for one answer."
            ),
            input_schema={
                "type": "object",
                "properties": {"handle": {"type": "string"}, "page": {"type": "integer", "minimum": 1, "default": 1}},
                "required": ["handle"],
            },
            annotations=looks,
        ),
    ]


def _tool(declaration: ToolDeclaration) -> types.Tool:
    """A tool as a client sees it: with the place in each call, and the user's own notebook in no other way."""
    schema = dict(declaration.parameters)
    own = {name: said for name, said in schema["properties"].items() if (declaration.name, name) != _NAMED_TWICE}
    return types.Tool(
        name=declaration.name,
        description=declaration.description,
        input_schema={**schema, "properties": {**_PLACES, **own}},
        annotations=types.ToolAnnotations(read_only_hint=declaration.read_only, open_world_hint=False),
    )


_NAMED_TWICE = ("read_notebook", "path")
