"""What a run costs a page in bytes: what is sent for each one, and what is loaded once."""

import json

from agent_kernel_widgets import opened


def test_a_run_sends_a_page_little() -> None:
    state = opened.sent_state(conversation_id="c" * 40, run_id="r" * 40, prompt="Say it.")
    assert len(json.dumps(state)) < 5_000
    assert len(opened.built("loader.js")) < 5_000
