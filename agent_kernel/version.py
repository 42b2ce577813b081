"""The version of the installed distribution."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("agent-kernel")
except PackageNotFoundError:
    __version__ = "unknown"  # a checkout that is on the path but not installed
