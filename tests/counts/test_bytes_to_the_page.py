"""What a run costs a page in bytes: what is sent for each one, and what is loaded once."""

import json

from agent_kernel_widgets.run import AgentRun, built


def test_a_run_sends_a_page_little() -> None:
    widget = AgentRun(conversation_id="c" * 40, run_id="r" * 40, prompt="Say it.")
    assert len(json.dumps([widget.get_state(), widget.layout.get_state()])) < 8_000
    assert len(built("loader.js")) < 5_000
