"""A run's widget as pages see it, opened before there is one in Python: the import of `ipywidgets` takes longest of all
that a first prompt needs. `AgentRun` takes it over afterwards."""

import functools
from importlib.metadata import version
from pathlib import Path
from typing import Any

import comm

_STATIC = Path(__file__).parent / "static"
PROTOCOL = "2.1.0"
"""The version of Jupyter's widget messages."""
TAKEN_FOR_GRANTED = {"transport": "server"}
"""What a page goes by where the state does not say."""


@functools.cache
def built(name: str) -> str:
    path = _STATIC / name
    if not path.is_file():
        raise ImportError(
            f"The front end of Agent Kernel is not built: {path.name} is missing. "
            "In a checkout, run `npm ci` and `npm run build` in the folder `widgets`."
        )
    return path.read_text(encoding="utf-8").strip()


def open_widget(model_id: str, **state: str) -> Any:
    """Open the widget of a run at the server: returns its comm. `state`: that of `AgentRun`.

    Raises `ImportError` where the front end is not built, or the widget's package is missing.
    """
    data = {"state": sent_state(**state), "buffer_paths": []}
    return comm.create_comm(target_name="jupyter.widget", comm_id=model_id, data=data, metadata={"version": PROTOCOL})


def sent_state(**state: str) -> dict[str, Any]:
    """The state of such a widget, as each run sends it to its page: without what a page takes for granted."""
    told = {name: value for name, value in state.items() if TAKEN_FOR_GRANTED.get(name) != value}
    return _anywidget() | {"_esm": built("loader.js")} | told


def _anywidget() -> dict[str, Any]:
    """What pages find the widget's classes by. The `_anywidget_id` is left out: a page finds by it the style sheet that
    a widget's `_css` replaces, and a run has none."""
    major, minor, *_ = version("anywidget").split(".")
    release = f"~{major}.{minor}.*"
    return {
        "_model_name": "AnyModel",
        "_model_module": "anywidget",
        "_model_module_version": release,
        "_view_name": "AnyView",
        "_view_module": "anywidget",
        "_view_module_version": release,
    }
