"""What servers of others send, without a Jupyter server: lists of tools, results, and their processes' ends."""

import asyncio
import logging
import os
import signal
import sys
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest

from agent_kernel.protocol.views import OutputView
from agent_kernel_server.mcp_tools import call_results, launcher
from agent_kernel_server.mcp_tools.call_results import outcome_of
from agent_kernel_server.mcp_tools.configuration import ServerConfig
from agent_kernel_server.mcp_tools.tool_server import MOST_TOOLS, McpServer
from tests.waiting import until

OBJECT: dict[str, Any] = {"type": "object", "properties": {"query": {"type": "string"}}}


def listed(name: str, schema: dict[str, Any] = OBJECT) -> types.Tool:
    return types.Tool(name=name, description=f"Does {name}.", input_schema=schema)


def text(said: str) -> types.TextContent:
    return types.TextContent(text=said)


@pytest.mark.parametrize(
    ("result", "said"),
    [
        ({"content": [text("4")], "structured_content": {"result": 4}}, "4"),
        ({"content": [text("Two.")], "structured_content": {"rows": 2}}, 'Two.\n{"rows": 2}'),
        ({"content": [types.ImageContent(data="AA==", mime_type="image/tiff")]}, "[image/tiff, left out]"),
    ],
    ids=["wrapped", "beside a text", "picture"],
)
def test_a_result_is_told_in_words_and_nothing_of_it_twice(result: dict[str, Any], said: str) -> None:
    shown: list[OutputView] = []
    outcome = outcome_of(types.CallToolResult(**result), shown.append)
    assert (outcome.status, outcome.content) == ("success", said)
    assert [one.text for one in shown] == [said]


def test_a_result_is_bounded_in_text_and_pictures_and_says_that_it_failed() -> None:
    shown: list[OutputView] = []
    pictures = [types.ImageContent(data="AA==", mime_type="image/png") for _ in range(call_results.MOST_PICTURES + 5)]
    long = text("x" * (call_results.MOST_SHOWN + 5))
    outcome = outcome_of(types.CallToolResult(content=[*pictures, long], is_error=True), shown.append)
    assert (outcome.status, len(outcome.content)) == ("error", call_results.MOST_SHOWN + 5)  # cut as any tool's text is
    assert len(shown) == call_results.MOST_PICTURES + 1
    assert shown[-1].text.endswith("x\n[5 characters left out here.]")


SERVER = "sleep 3600 & echo $! $$; trap '' TERM; cat > /dev/null; while :; do sleep 0.1; done"
"""It neither ends with its input nor by a signal, and has started a process of its own."""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="it looks into /proc")
@pytest.mark.parametrize("stop", ["the Jupyter server dies", "the Jupyter server ends it"])
async def test_a_server_ends_with_all_that_it_started(stop: str) -> None:
    line = [sys.executable, "-I", launcher.__file__, "1000000", "sh", "-c", SERVER]
    started = await asyncio.create_subprocess_exec(*line, stdin=PIPE, stdout=PIPE, start_new_session=True)
    assert started.stdin is not None
    assert started.stdout is not None
    processes = [int(word) for word in (await started.stdout.readline()).split()]
    assert all(_lives(pid) for pid in processes)
    if stop == "the Jupyter server ends it":
        os.killpg(started.pid, signal.SIGTERM)
    started.stdin.close()
    await started.wait()
    await until(lambda: not any(_lives(pid) for pid in processes))


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_of_two_tools_of_one_name_the_first_counts_and_bad_ones_are_left_out_and_said(tmp_path: Path) -> None:
    config = ServerConfig("peer", "user", command=("peer",))
    server = McpServer(config, tmp_path, logging.getLogger(), "http://localhost/", tmp_path / "tokens")
    remote = {"type": "object", "properties": {"a": {"$ref": "https://evil.example/schema.json"}}}
    again = types.Tool(name="look", description="Another.", input_schema=OBJECT)
    tools, notes = server._declared([listed("look"), again, listed("remote", remote), listed("add")])
    assert [(one.name, one.description) for one in tools] == [("peer__look", "Does look."), ("peer__add", "Does add.")]
    assert notes[0] == "It lists two tools named 'look': the first one counts."
    assert "remote" in notes[1]
    tools, notes = server._declared([listed(f"tool{number}") for number in range(MOST_TOOLS + 3)])
    assert (len(tools), notes) == (MOST_TOOLS, (f"It lists more than {MOST_TOOLS} tools.",))
