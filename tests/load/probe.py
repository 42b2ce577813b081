"""A server extension for the load only: what the server's process holds, once it has collected its garbage.

The resident set says little: Python's and the C library's allocators keep pages for later, and a page goes back only
when nothing in it is in use. So it counts what is alive, asks both allocators how much of theirs is in use, and has the
C library give back what is free.
"""

import asyncio
import ctypes
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
OURS = ("agent_kernel", "langgraph", "langchain_core", "openai", "httpx2", "aiohttp", "asyncio", "_asyncio")
"""Packages whose objects are counted: this project's, and those that a run makes objects of."""


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    return [{"module": "tests.load.probe"}]


def _load_jupyter_server_extension(app: Any) -> None:
    app.web_app.add_handlers(".*$", [(url_path_join(app.web_app.settings["base_url"], PATH), ProbeHandler)])


class _MallInfo(ctypes.Structure):
    """`struct mallinfo2` of glibc 2.33 and newer: mallinfo(3)."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks",
                     "keepcost")
    )  # fmt: skip


def _c_bytes() -> int:
    """What the C library's allocator has given out: SQLite's and zlib's memory, and Python's objects above 512 bytes.
    0 where it can't say."""
    ask: Any = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if ask is None:
        return 0
    ask.restype = _MallInfo
    info = ask()
    return int(info.uordblks + info.hblkhd)


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
        histories = [one.digest_history for one in alive if issubclass(type(one), Session)]
        signatures = sum(map(len, histories))
        tables = sum(map(sys.getsizeof, histories))
        ours = {
            f"{kind.__module__}.{kind.__qualname__}": count
            for kind, count in counted.items()
            if str(kind.__module__).split(".")[0].startswith(OURS) and kind is not asyncio.TimerHandle
        }
        trim: Any = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
        blocks = sys.getallocatedblocks() - signatures
        self.finish({"objects": ours, "blocks": blocks, "c_bytes": _c_bytes() - tables})
