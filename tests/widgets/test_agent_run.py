"""The widget in Python: what it sends to a page, and what it hears from one."""

import importlib
from pathlib import Path
from typing import Any

import pytest

from agent_kernel_widgets import AgentRun, run

FRAME = '{"type":"token","seq":1}'


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    messages: list[Any] = []
    monkeypatch.setattr(AgentRun, "send", lambda _self, content, buffers=None: messages.append(content))
    return messages


def test_frames_go_down_in_one_message_and_in_order(sent: list[Any]) -> None:
    widget = AgentRun(conversation_id="conv_1", run_id="run_1", prompt="Go", transport="kernel")
    widget.post_frames([FRAME, FRAME])
    widget.post_frames([])
    assert sent == [{"frames": [FRAME, FRAME]}]


def test_commands_of_a_page_are_handled_and_anything_else_is_not() -> None:
    heard: list[Any] = []
    widget = AgentRun(run_id="run_1", transport="kernel")
    widget.on_command(heard.append)
    for content in ({"command": {"type": "resume", "last_seq": 0}}, {"command": "stop"}, {"other": 1}, None):
        widget._handle_custom_msg(content, [])
    assert heard == [{"type": "resume", "last_seq": 0}]


def test_the_page_is_told_which_run_to_show_and_how_to_reach_it() -> None:
    widget = AgentRun(conversation_id="conv_1", run_id="run_1", prompt="Go")
    state = widget.get_state(["conversation_id", "run_id", "prompt", "transport"])
    named = {"conversation_id": "conv_1", "run_id": "run_1", "prompt": "Go"}
    assert state == {**named, "transport": "server"}


def test_a_page_of_the_server_is_sent_a_loader_and_any_other_page_all_of_the_front_end(sent: list[Any]) -> None:
    served, embedded = AgentRun(run_id="run_1"), AgentRun(run_id="run_2", transport="kernel")
    whole = run.built("index.js")
    assert embedded.get_state("_esm") == {"_esm": whole}
    assert len(served.get_state("_esm")["_esm"]) < len(whole) / 100
    for widget in (served, embedded):
        widget._handle_custom_msg({"wants": "front_end"}, [])
    assert sent == [{"front_end": whole}], "the loader asks for it where the server has another version"


def test_a_front_end_that_was_not_built_says_how_to_build_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "_STATIC", tmp_path)
    run.built.cache_clear()
    with pytest.raises(ImportError, match="npm run build"):
        run.built("index.js")
    assert importlib.import_module("agent_kernel_widgets").__all__ == ["AgentRun"]
