"""The files of the front end, as a page imports them."""

import re
from pathlib import Path

import pytest
from tornado.httpclient import HTTPClientError

from agent_kernel_server.handlers import front_end_folders
from tests.server.serving import Server

FOLDER = Path(front_end_folders()[0])
PARTS = sorted(path.name for path in FOLDER.glob("*.js"))
FIRST = next(name for name in PARTS if name.startswith("cards-"))
NOBODY = {"Authorization": ""}


@pytest.mark.parametrize("name", PARTS)
async def test_every_part_is_served_by_its_content_and_cached_for_good(server: Server, name: str) -> None:
    answer = await server.fetch("agent-kernel", "static", name)
    assert answer.body == (FOLDER / name).read_bytes()
    assert answer.headers["Content-Type"] in ("text/javascript", "application/javascript")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Cache-Control"] == "public, max-age=31536000, immutable"
    assert re.search(rb"sourceMappingURL|/home/|node_modules/", answer.body) is None


async def test_a_page_needs_no_token_for_them_as_for_jupyters_own_files(server: Server) -> None:
    answer = await server.fetch("agent-kernel", "static", FIRST, headers=NOBODY)
    assert answer.code == 200
    assert "Set-Cookie" not in answer.headers or "username" not in answer.headers["Set-Cookie"]


@pytest.mark.parametrize(
    "path", ["cards-00000000.js", "index.js", "loader.js", "", "..%2Findex.js", "%2e%2e/index.js", f"{FIRST}/x"]
)
async def test_a_version_that_is_not_here_and_any_other_file_is_not_found_and_not_cached(
    server: Server, path: str
) -> None:
    with pytest.raises(HTTPClientError) as refused:
        await server.fetch("agent-kernel", "static", path)
    assert refused.value.code == 404
    assert "immutable" not in (refused.value.response or pytest.fail("no answer")).headers.get("Cache-Control", "")


async def test_nothing_is_written_there(server: Server) -> None:
    for method in ("POST", "PUT", "DELETE"):
        with pytest.raises(HTTPClientError, match=r"40[35]"):
            await server.fetch("agent-kernel", "static", FIRST, method=method, body="x", allow_nonstandard_methods=True)
