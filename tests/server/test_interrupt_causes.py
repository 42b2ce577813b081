"""Who interrupted a call: a person through Jupyter, the code itself, or a signal that nobody asked Jupyter for."""

import pytest

from agent_kernel.testing import FakeOpenAI, call, say
from tests.server.client import Api, Kernel
from tests.server.test_kernels import waiting_call

pytestmark = pytest.mark.kernel


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("raise KeyboardInterrupt('mine')", ["The code raised KeyboardInterrupt itself", "mine"]),
        ("subprocess.run('kill -INT $PPID', shell=True)\ntime.sleep(600)", ["by a signal (SIGINT), not by the user"]),
    ],
    ids=["raised", "signalled"],
)
async def test_an_interrupt_that_nobody_asked_jupyter_for_is_not_the_users_and_the_model_goes_on(
    api: Api, kernel: Kernel, model: FakeOpenAI, code: str, said: list[str]
) -> None:
    # A kernel asks the server for a second at most who has interrupted it: whoever is silent is a person.
    asks = "from agent_kernel.notebook.kernel import to_server\nassert to_server.ASK_SECONDS\n"
    await kernel.text(f"{asks}to_server.ASK_SECONDS = 60")
    model.add(call("run_python", code=f"import subprocess, time\nprint('in', flush=True)\n{code}"), say("I go on."))
    conversation_id, waiting = await waiting_call(api, kernel)
    await api.decide(waiting)
    view = await api.ended(conversation_id)
    (one,) = view["tool_calls"]
    assert (one["state"], view["runs"][0]["status"]) == ("error", "complete")
    assert [words for words in said if words not in one["result"]] == []
    assert "Cancelled" not in one["result"]
    assert view["messages"][-1]["content"] == "I go on."
