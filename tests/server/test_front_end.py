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


@pytest.mark.parametrize("name", PARTS)
async def test_every_part_is_served_without_a_token_as_jupyters_own_files_and_cached_for_good(
    server: Server, name: str
) -> None:
    answer = await server.fetch("agent-kernel", "static", name, headers={"Authorization": ""})
    assert answer.body == (FOLDER / name).read_bytes()
    assert answer.headers["Content-Type"] in ("text/javascript", "application/javascript")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Cache-Control"] == "public, max-age=31536000, immutable"
    assert "username" not in answer.headers.get("Set-Cookie", "")
    assert re.search(rb"sourceMappingURL|/home/|node_modules/", answer.body) is None


@pytest.mark.parametrize("path", ["cards-00000000.js", "index.js", "..%2Findex.js", f"{FIRST}/x"])
async def test_a_version_that_is_not_here_and_any_other_file_is_not_found_and_not_cached(
    server: Server, path: str
) -> None:
    with pytest.raises(HTTPClientError) as refused:
        await server.fetch("agent-kernel", "static", path)
    assert refused.value.code == 404
    assert "immutable" not in (refused.value.response or pytest.fail("no answer")).headers.get("Cache-Control", "")
