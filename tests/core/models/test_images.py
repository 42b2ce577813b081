"""Pictures on their way to a model: made plain and small, refused where they are none, and sent in the API's way."""

import base64
import io
from typing import Any

import pytest
from PIL import Image, PngImagePlugin

from agent_kernel.models import images
from agent_kernel.models.base import ModelRequest
from agent_kernel.models.chat import ChatApi
from agent_kernel.models.images import NoPicture, Picture, plain_picture

REF = {"digest": "d" * 64, "media_type": "image/png", "width": 640, "height": 480}
DATA = base64.b64encode(b"a picture").decode()
URL = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{DATA}"}}


def encoded(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def decoded(picture: Picture) -> Image.Image:
    return Image.open(io.BytesIO(picture.data))


def blank(mode: str, size: int) -> bytes:
    return encoded(Image.new(mode, (size, size)))


def messages_of(*messages: dict[str, Any], has: bool = True) -> list[dict[str, Any]]:
    request = ModelRequest(messages, images={REF["digest"]: DATA} if has else {})
    body = ChatApi("fake", "http://here").body(request)
    return list(body["messages"])


def test_a_plot_keeps_its_size_and_loses_what_it_says_of_itself() -> None:
    notes = PngImagePlugin.PngInfo()
    notes.add_text("Software", "a secret")
    picture = plain_picture(encoded(Image.new("RGB", (640, 480), "red"), pnginfo=notes))
    assert (picture.ref.media_type, picture.ref.width, picture.ref.height) == ("image/png", 640, 480)
    assert b"a secret" not in picture.data
    assert picture == plain_picture(encoded(Image.new("RGB", (640, 480), "red")))


@pytest.mark.parametrize("size", [(4000, 3000), (100, 3000)])
def test_a_large_picture_is_made_as_large_as_is_of_use(size: tuple[int, int]) -> None:
    picture = plain_picture(encoded(Image.new("RGB", size, "red")))
    assert max(picture.ref.width, picture.ref.height) <= images.LONG_EDGE
    assert picture.ref.width * picture.ref.height <= images.SENT_PIXELS
    assert picture.ref.width / picture.ref.height == pytest.approx(size[0] / size[1], rel=0.03)
    assert decoded(picture).size == (picture.ref.width, picture.ref.height)


def test_a_photograph_is_upright_and_without_its_place() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # taken with the camera on its side
    exif[0x010E] = "at home"
    picture = plain_picture(encoded(Image.new("RGB", (300, 100), "red"), "JPEG", exif=exif, comment="at home"))
    assert (picture.ref.media_type, picture.ref.width, picture.ref.height) == ("image/jpeg", 100, 300)
    assert b"at home" not in picture.data


NO_PICTURES = {
    "svg": (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "neither PNG nor JPEG"),
    "cut off": (encoded(Image.effect_noise((200, 200), 120))[:5_000], "damaged"),
    "30 MB": (b"\0" * (30 * 1024 * 1024), "31,457,280 bytes"),
    "bomb": (blank("1", 30_000), "40,000,000 pixels"),
    "too many pixels": (blank("1", 7_000), "7000 x 7000 pixels"),
}


@pytest.mark.parametrize(("raw", "why"), NO_PICTURES.values(), ids=NO_PICTURES)
def test_what_is_no_picture_or_too_large_a_one_is_refused_with_a_reason(raw: bytes, why: str) -> None:
    with pytest.raises(NoPicture, match=why):
        plain_picture(raw)


def test_what_calls_showed_follows_the_answers_of_their_step() -> None:
    sent = messages_of(
        {"role": "user", "content": "Plot it."},
        {"role": "assistant", "content": "Let me."},
        {"role": "tool", "tool_call_id": "a", "content": "drawn", "images": [REF]},
        {"role": "tool", "tool_call_id": "b", "content": "6"},
        {"role": "assistant", "content": "A line."},
    )
    assert [message["role"] for message in sent] == ["user", "assistant", "tool", "tool", "user", "assistant"]
    assert sent[2] == {"role": "tool", "tool_call_id": "a", "content": "drawn"}
    assert sent[4]["content"] == [{"type": "text", "text": images.SHOWN_BY.format("a")}, URL]
