"""The build hook that makes the front end (widget and JupyterLab extension) when a distribution is built."""

from pathlib import Path

from hatch_jupyter_builder import npm_builder
from hatch_jupyter_builder.utils import is_stale

BUNDLE = Path("widgets/agent_kernel_widgets/static/index.js")
EXTENSION = Path("widgets/lab/labextension/package.json")
SOURCES = (
    *("widgets/src", "widgets/lab/src", "widgets/lab/schema", "widgets/lab/container.ts", "widgets/lab/package.json"),
    *("widgets/scripts", "widgets/package.json", "widgets/package-lock.json"),
)


def build(target_name: str, version: str) -> None:
    """Run npm if a built file is missing or older than a source. Paths are relative to the project's root.

    A source distribution, recognised by its `PKG-INFO`, contains the bundle, so that installing from one needs no Node.
    """
    built = BUNDLE.exists() and EXTENSION.exists()
    if Path("PKG-INFO").exists() and built:
        return
    if not built or any(is_stale(EXTENSION, source) for source in SOURCES):
        npm_builder(target_name, version, path="widgets", npm="npm")
