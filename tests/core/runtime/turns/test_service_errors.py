"""What a run says, and what the next one can still do, where a service or what is before it refuses a request."""

import io
import json
import random
from collections.abc import Callable
from typing import Any

from PIL import Image

from agent_kernel.models.api import Api
from agent_kernel.models.base import Model, ModelTurn
from agent_kernel.models.client import Connection, SharedClient
from agent_kernel.models.http import HttpModel
from agent_kernel.models.known import Capabilities
from agent_kernel.protocol.views import RunView
from agent_kernel.testing import FakeOpenAI, VirtualClock, say
from agent_kernel.testing.fake_openai import FAKE_KEY
from agent_kernel.testing.wire.reply import Reply
from tests.core.models.test_refusals import NGINX
from tests.core.runtime.runtime_fixtures import FunctionExecutor, Stages

TOO_LARGE = Reply(NGINX, status=413, content_type="text/html")


def model_at(server: FakeOpenAI, api: Api | None = None) -> HttpModel:
    client = SharedClient(Connection(server.url, lambda: FAKE_KEY))
    return HttpModel("fake", client, api=api, capabilities=lambda: Capabilities(images=True), clock=VirtualClock())


def behind_nginx(most_bytes: int, *answers: ModelTurn) -> Callable[[dict[str, Any]], ModelTurn | Reply]:
    """A model that answers so, behind nginx with such a `client_max_body_size`."""
    left = iter(answers)
    return lambda body: TOO_LARGE if len(json.dumps(body)) > most_bytes else next(left)


async def run(stages: Stages, model: Model, prompt: str = "Go", **options: Any) -> RunView:
    stage = await stages(model, **options)
    return (await (await stage.start(prompt)).wait()).run


async def test_a_page_of_a_proxys_about_the_body_stops_no_other_run(stages: Stages) -> None:
    """In "413 Request Entity Too Large" is no context of 413 tokens."""
    proxy = behind_nginx(20_000, say("First."), say("Second."))
    async with FakeOpenAI([proxy] * 3) as server:
        model = model_at(server)
        refused = await run(stages, model, "x" * 30_000)
        after = [await run(stages, model, "y" * size) for size in (2_000, 15_000)]
        await model.aclose()
    assert (refused.status, refused.error and refused.error.code) == ("error", "LLM_ERROR")
    assert refused.error is not None
    assert refused.error.message.startswith(
        f"{server.url} takes no request of this size (413): 413 Request Entity Too Large: nginx/1.22.1. "
    )
    assert "raise that (nginx: client_max_body_size)" in refused.error.message
    assert "%agent new" in refused.error.message
    assert [one.status for one in after] == ["complete"] * 2


async def test_pictures_that_no_longer_fit_are_left_out_and_the_run_says_so(stages: Stages) -> None:
    file = io.BytesIO()
    Image.frombytes("RGB", (120, 90), random.Random(1).randbytes(120 * 90 * 3)).save(file, "PNG")
    executor = FunctionExecutor(files={"plot.png": file.getvalue()})
    async with FakeOpenAI([behind_nginx(20_000, say("I see."))] * 2) as server:
        model = model_at(server)
        done = await run(stages, model, "What is ![](plot.png)?", executor=executor)
        await model.aclose()
    assert done.status == "complete"
    assert [one.content for one in done.notices] == [
        f"Left out a picture: {server.url} takes no request of that size (it said: 413 Request Entity Too Large: "
        "nginx/1.22.1)."
    ]
    assert "120 x 90 pixels is not attached" in str(server.requests[1].body)
