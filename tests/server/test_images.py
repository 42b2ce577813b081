"""A plot of a served kernel, and a picture that a prompt names, on their way to a model that takes images."""

import base64
import json
from pathlib import Path
from typing import Any

import nbformat
import pytest

from agent_kernel.testing import FakeOpenAI, call, say
from tests.core.tools.builtin.pictures import png_bytes, size_of
from tests.server.client import Api, Client, Kernel, OpenChannel
from tests.server.serving import Server

pytestmark = pytest.mark.kernel

PLOT = "import matplotlib.pyplot as plt\nplt.plot([1, 3, 2])\nplt.title('Peak');"
SEEING = "%%agent --model gpt-5 --policy allow\n"
"""The fake server serves any name, and this one says that its model takes images."""


def pictures(message: Any) -> list[tuple[int, int]]:
    parts = message["content"] if isinstance(message["content"], list) else []
    urls = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
    assert all(url.startswith("data:image/png;base64,") for url in urls)
    return [size_of(url.partition(",")[2]) for url in urls]


async def test_the_model_gets_the_plot_and_the_page_says_so_also_after_a_reload(
    api: Api, open_kernel: Kernel, model: FakeOpenAI, client: OpenChannel
) -> None:
    model.add(call("run_python", call_id="c1", code=PLOT), say("It peaks in the middle."))
    await open_kernel.run(f"{SEEING}Draw it.")
    conversation_id = (await api.listed("runs"))[0]["conversation_id"]
    page: Client = await client(conversation_id)
    await page.until("session")
    await page.send({"type": "resume", "last_seq": 0})
    seen = await page.until("tool_seen")
    assert (seen["tool_call_id"], seen["images"]) == ("c1", 1)
    view = await api.ended(conversation_id)
    assert [one["seen_images"] for one in view["tool_calls"]] == [1]
    messages = model.requests[-1].body["messages"]
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "tool", "user"]
    assert pictures(messages[-1]) == [(556, 434)]
    again = await (await client(conversation_id)).until("session")
    assert [one["seen_images"] for one in again["snapshot"]["tool_calls"]] == [1]


async def test_an_attachment_in_the_prompt_is_read_from_the_notebook_also_after_it_was_renamed(
    api: Api, open_kernel: Kernel, model: FakeOpenAI, analysis: Path, server: Server
) -> None:
    [session] = json.loads((await server.fetch("api", "sessions")).body)
    renamed = json.dumps({"path": "folder/renamed.ipynb", "name": "renamed.ipynb"})
    await server.fetch("api", "sessions", session["id"], method="PATCH", body=renamed)
    cells = [attached(40), nbformat.v4.new_code_cell(id="asks"), attached(60)]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), analysis.with_name("renamed.ipynb"))
    model.add(say("A square."))
    await open_kernel.run(f"{SEEING}What is ![](attachment:image.png) and ![](attachment:gone.png)?", cell_id="asks")
    conversation_id = (await api.listed("runs"))[0]["conversation_id"]
    view = await api.ended(conversation_id)
    assert pictures(model.requests[0].body["messages"][-1]) == [(40, 30)]
    assert [notice["content"] for notice in view["runs"][0]["notices"]] == [
        "The picture 'attachment:gone.png' is not sent to the model: no Markdown cell above this cell in the saved "
        "notebook has this attachment. If you see it there, save the notebook first."
    ]


def attached(width: int) -> Any:
    picture = base64.b64encode(png_bytes(width, 30)).decode()
    return nbformat.v4.new_markdown_cell("![](attachment:image.png)", attachments={"image.png": {"image/png": picture}})


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
