"""Who interrupted a call: a person through Jupyter, the code itself, or a signal that nobody asked Jupyter for."""

from typing import Any

import pytest

from agent_kernel.testing import FakeOpenAI, call, say
from tests.server.client import Api, Kernel
from tests.server.test_kernels import waiting_call

pytestmark = pytest.mark.kernel

SHELL = "subprocess.run('kill -INT $PPID', shell=True)"
BY_A_SIGNAL = "by a signal (SIGINT), not by the user"


async def asks_patiently(kernel: Kernel) -> None:
    """A kernel asks the server for a second at most who has interrupted it: whoever is silent is a person."""
    asks = "from agent_kernel.notebook.kernel import to_server\nassert to_server.ASK_SECONDS\n"
    await kernel.text(f"{asks}to_server.ASK_SECONDS = 60")


async def run_to_end(api: Api, kernel: Kernel, model: FakeOpenAI, code: str) -> Any:
    model.add(call("run_python", code=f"import os, signal, subprocess, time\nprint('in', flush=True)\n{code}"))
    model.add(say("I go on."))
    await asks_patiently(kernel)
    conversation_id, waiting = await waiting_call(api, kernel)
    await api.decide(waiting)
    return await api.ended(conversation_id)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("raise KeyboardInterrupt('mine')", ["The code raised KeyboardInterrupt itself", "mine"]),
        (f"{SHELL}\ntime.sleep(600)", [BY_A_SIGNAL]),
        ("os.kill(os.getpid(), signal.SIGINT)\ntime.sleep(600)", [BY_A_SIGNAL]),
    ],
    ids=["raised", "shell", "signalled"],
)
async def test_an_interrupt_that_nobody_asked_jupyter_for_is_not_the_users_and_the_model_goes_on(
    api: Api, kernel: Kernel, model: FakeOpenAI, code: str, said: list[str]
) -> None:
    view = await run_to_end(api, kernel, model, code)
    (one,) = view["tool_calls"]
    assert (one["state"], view["runs"][0]["status"]) == ("error", "complete")
    assert [words for words in said if words not in one["result"]] == []
    assert "Cancelled" not in one["result"]
    assert view["messages"][-1]["content"] == "I go on."
