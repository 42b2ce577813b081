"""The real server of `tests/server`, for what is counted between it and a kernel."""

from tests.server.conftest import *  # noqa: F403 -- fixtures, which pytest finds by their names
