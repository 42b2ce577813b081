"""A plot of a served kernel, and a picture that a prompt names, on their way to a model that takes images."""

from pathlib import Path

import pytest

from agent_kernel.testing import FakeOpenAI, call, say
from tests.core.tools.builtin.pictures import png_bytes
from tests.server.client import Api, Kernel

pytestmark = pytest.mark.kernel

PLOT = "import matplotlib.pyplot as plt\nplt.plot([1, 3, 2])\nplt.title('Peak');"
SEEING = "%%agent --model gpt-5 --policy allow\n"
"""The fake server serves any name, and this one says that its model takes images."""


@pytest.mark.parametrize("extension_traits", [{"send_images": False}])
async def test_where_the_site_keeps_pictures_none_leaves_the_machine(
    api: Api, open_kernel: Kernel, model: FakeOpenAI, analysis: Path
) -> None:
    (analysis.parent / "figure.png").write_bytes(png_bytes(40, 30))
    model.add(call("run_python", code=PLOT), say("I can't see it."))
    await open_kernel.run(f"{SEEING}Draw it like ![](figure.png).")
    view = await api.ended((await api.listed("runs"))[0]["conversation_id"])
    assert [one["seen_images"] for one in view["tool_calls"]] == [0]
    assert "image_url" not in str([request.body for request in model.requests])
    _, prompt, *_, tool = model.requests[-1].body["messages"]
    assert "[The user's message has a picture: 40 x 30 pixels. You can't see it.]" in prompt["content"]
    assert tool["content"].endswith("[A plot was shown to the user: 556 x 434 pixels. You can't see it.]")
