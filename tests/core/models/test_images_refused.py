"""A model that was thought to take images, and does not."""

import pytest

from agent_kernel.models.base import ModelRequest, Notice
from agent_kernel.models.known import Capabilities
from agent_kernel.testing import say
from agent_kernel.testing.wire.reply import failure
from tests.core.models.model_fixtures import collect, connected
from tests.core.models.test_images import DATA, REF, URL

REQUEST = ModelRequest(messages=({"role": "user", "content": "See?", "images": [REF]},), images={REF["digest"]: DATA})
REFUSALS = [
    "Invalid content type. image_url is only supported by certain models.",
    "this model does not support image input (ref: 1)",
    "At most 1 image(s) may be provided in one prompt.",
    "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj",
]


@pytest.mark.parametrize("words", REFUSALS)
async def test_it_is_asked_once_more_with_words_and_that_is_remembered_and_said(words: str) -> None:
    script = (failure(400, words), say("No."))
    async with connected(*script, capabilities=Capabilities(images=True)) as (server, model):
        assert model.facts.images
        items = await collect(model, REQUEST)
    assert isinstance(items[0], Notice)
    assert items[0].content.startswith(f"fake takes no images ({server.url} said: {words.rstrip('.')})")
    assert items[-1] == say("No.")
    first, second = (request.body["messages"][0]["content"] for request in server.requests)
    assert first[1] == URL
    assert "640 x 480 pixels" in second[1]["text"]
    assert not model.facts.images
