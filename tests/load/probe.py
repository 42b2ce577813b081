"""A server extension for the load only: what the server's process holds, once it has collected its garbage.

The resident set alone says little: Python's and the C library's allocators keep pages for later. So it counts what is
alive, and has the C library give back what is free.
"""

import ctypes
import gc
import sys
from collections import Counter
from typing import Any

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


class ProbeHandler(APIHandler):
    @web.authenticated
    async def get(self) -> None:
        gc.collect()
        counted = Counter(type(one) for one in gc.get_objects())
        ours = {
            f"{kind.__module__}.{kind.__qualname__}": count
            for kind, count in counted.items()
            if str(kind.__module__).split(".")[0].startswith(OURS)
        }
        trim: Any = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
        self.finish({"objects": ours, "blocks": sys.getallocatedblocks()})
