"""A server extension for the load only: what the server's process holds, once it has collected its garbage.

The resident set says little: allocators keep pages for later. So it counts what is alive, SQLite's connections too, and
the memory blocks of Python that are in use.
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
from tornado import web

PATH = "agent-kernel-load"
OURS = ("agent_kernel", "langgraph", "langchain_core", "openai", "httpx2", "aiohttp", "asyncio", "_asyncio", "sqlite3")
"""Packages whose objects are counted: this project's, and those that a run makes objects of."""


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    return [{"module": "tests.load.probe"}]


def _load_jupyter_server_extension(app: Any) -> None:
    app.web_app.add_handlers(".*$", [(url_path_join(app.web_app.settings["base_url"], PATH), ProbeHandler)])


def _drop_cancelled_timers() -> None:
    """An event loop keeps up to a hundred timers that were cancelled until they are due, and with their contexts the
    handlers that Jupyter Server names there: a WebSocket's for the 30 s until its next ping."""
    loop: Any = asyncio.get_running_loop()
    loop._scheduled = [handle for handle in loop._scheduled if not handle.cancelled()]
    heapq.heapify(loop._scheduled)
    loop._timer_cancelled_count = 0


class ProbeHandler(APIHandler):
    @web.authenticated
    async def get(self) -> None:
        _drop_cancelled_timers()
        gc.collect()
        alive = gc.get_objects()
        counted = Counter(type(one) for one in alive)
        # By type: to be asked for its class makes a lazy object load all that it stands for.
        # Jupyter keeps the signatures of the last 65,536 messages of each connection, so that none is played again.
        signatures = sum(len(one.digest_history) for one in alive if issubclass(type(one), Session))
        ours = {
            f"{kind.__module__}.{kind.__qualname__}": count
            for kind, count in counted.items()
            if str(kind.__module__).split(".")[0].startswith(OURS) and kind is not asyncio.TimerHandle
        }
        self.finish({"objects": ours, "blocks": sys.getallocatedblocks() - signatures})
