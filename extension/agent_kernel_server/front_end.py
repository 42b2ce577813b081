"""The route of the front end's files, which a widget's loader imports in place of being sent all of it."""

import importlib.util
from pathlib import Path

from jupyter_server.base.handlers import FileFindHandler

NAMES = r"((?:cards|part)-[0-9A-Z]{8}\.js)"
"""As the build names them: by their content, so that a file never changes under its name."""


def folder() -> Path | None:
    """Where the built files are; `None` if the widget is not installed here. Does not import the widget's package."""
    spec = importlib.util.find_spec("agent_kernel_widgets")
    places = spec.submodule_search_locations if spec is not None else None
    return Path(places[0]) / "static" / "parts" if places else None


class FrontEndHandler(FileFindHandler):
    """Serves the files as Jupyter serves those of its own page: to anyone who reaches the server. They are the same for
    everybody, and a page's `import` brings no token."""

    _static_paths: dict[str, str] = {}  # noqa: RUF012 -- the cache of the base class is one for all folders

    def set_headers(self) -> None:
        super().set_headers()
        self.set_header("Cache-Control", "public, max-age=31536000, immutable")

    def get_content_type(self) -> str:
        """Not by the system's table, which is wrong on some machines; browsers run no module of another type."""
        return "text/javascript; charset=utf-8"


def front_end_route() -> tuple[str, type[FrontEndHandler], dict[str, list[str]]]:
    where = folder()
    return rf"agent-kernel/static/{NAMES}", FrontEndHandler, {"path": [str(where)] if where is not None else []}
