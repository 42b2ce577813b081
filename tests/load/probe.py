"""A server extension for the load only: what of this project is alive in the server, once it has collected its garbage.

The resident set says little: allocators keep pages for later.
"""

import asyncio
import gc
import heapq
import sys
from collections import Counter
from typing import Any

from jupyter_client.session import Session
from jupyter_server.base.handlers import APIHandler
from jupyter_server.utils import url_path_join
from tornado import web, websocket

PATH = "agent-kernel-load"


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    return [{"module": "tests.load.probe"}]


def _load_jupyter_server_extension(app: Any) -> None:
    app.web_app.add_handlers(".*$", [(url_path_join(app.web_app.settings["base_url"], PATH), ProbeHandler)])


def _drop_cancelled_timers() -> None:
    """An event loop keeps up to a hundred timers that were cancelled until they are due, and with their contexts the
    handlers that Jupyter Server names there: a WebSocket's for the time until its next ping."""
    loop: Any = asyncio.get_running_loop()
    loop._scheduled = [handle for handle in loop._scheduled if not handle.cancelled()]
    heapq.heapify(loop._scheduled)
    loop._timer_cancelled_count = 0


def _is_answered(kind: type) -> bool:
    return issubclass(kind, web.RequestHandler) and not issubclass(kind, websocket.WebSocketHandler)


class ProbeHandler(APIHandler):
    @web.authenticated
    async def get(self) -> None:
        _drop_cancelled_timers()
        gc.collect()
        # By type: to be asked for its class makes a lazy object load all that it stands for. A connection that is kept
        # open has the handler of its last request.
        alive = [one for one in gc.get_objects() if not _is_answered(type(one))]
        kinds = Counter(f"{type(one).__module__}.{type(one).__qualname__}" for one in alive)
        # Jupyter keeps the signatures of the last 65,536 messages of each connection, so that none is played again.
        signatures = sum(len(one.digest_history) for one in alive if issubclass(type(one), Session))
        ours = {kind: count for kind, count in kinds.items() if kind.startswith("agent_kernel")}
        self.finish({"objects": ours, "blocks": sys.getallocatedblocks() - signatures})
