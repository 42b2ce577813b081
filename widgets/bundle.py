"""The build step of a distribution: make the front-end bundle, where there is something to make it from."""

from pathlib import Path

from hatch_jupyter_builder import npm_builder
from hatch_jupyter_builder.utils import is_stale

BUNDLE = Path("widgets/agent_kernel_widgets/static/index.js")
SOURCES = ("widgets/src", "widgets/scripts", "widgets/package.json", "widgets/package-lock.json")


def build(target_name: str, version: str) -> None:
    """Run npm when the bundle is missing or older than a source. Paths are relative to the project's root.

    A source distribution brings its bundle along (its `PKG-INFO` tells it apart from a checkout), so that installing
    from one needs no Node.
    """
    if Path("PKG-INFO").exists() and BUNDLE.exists():
        return
    if not BUNDLE.exists() or any(is_stale(BUNDLE, source) for source in SOURCES):
        npm_builder(target_name, version, path="widgets", npm="npm")
