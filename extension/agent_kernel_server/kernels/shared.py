"""`Shared`: what the kernels of a server have in common."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from logging import Logger

from agent_kernel.protocol.lists import ModelsView, ServersView
from agent_kernel.runtime.runtime import Runtime
from agent_kernel_server.notebooks.cell_files import CellFiles
from agent_kernel_server.notebooks.documents import Documents
from agent_kernel_server.notebooks.open_pages import OpenPages
from agent_kernel_server.notebooks.records import RecordKeeper


@dataclass(frozen=True, slots=True)
class Shared:
    runtime: Callable[[], Awaitable[Runtime]]
    list_models: Callable[[], Awaitable[ModelsView]]
    list_servers: Callable[[], Awaitable[ServersView]]
    """The MCP servers and their tools."""
    is_shown: Callable[[str], bool]
    """Whether an open page shows a run now."""
    records: RecordKeeper
    pages: OpenPages
    documents: Documents
    files: CellFiles
    log: Logger
