"""A server extension for the load only: what of this project is alive in the server, once it has collected its garbage.

The resident set says little: allocators keep pages for later.
"""

import gc
from collections import Counter
from typing import Any

from jupyter_server.base.handlers import APIHandler
from jupyter_server.utils import url_path_join
from tornado import web

PATH = "agent-kernel-load"


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    return [{"module": "tests.load.probe"}]


def _load_jupyter_server_extension(app: Any) -> None:
    app.web_app.add_handlers(".*$", [(url_path_join(app.web_app.settings["base_url"], PATH), ProbeHandler)])


class ProbeHandler(APIHandler):
    @web.authenticated
    async def get(self) -> None:
        gc.collect()
        # By type: to be asked for its class makes a lazy object load all that it stands for.
        kinds = Counter(f"{type(one).__module__}.{type(one).__qualname__}" for one in gc.get_objects())
        self.finish({kind: count for kind, count in kinds.items() if kind.startswith("agent_kernel")})
