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


def png(image: Image.Image, **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, "PNG", **options)
    return file.getvalue()


def jpeg(image: Image.Image, **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, "JPEG", **options)
    return file.getvalue()


def noise(width: int, height: int) -> Image.Image:
    return Image.effect_noise((width, height), 120).convert("RGB")


def decoded(picture: Picture) -> Image.Image:
    return Image.open(io.BytesIO(picture.data))


def messages_of(*messages: dict[str, Any], has: bool = True) -> list[dict[str, Any]]:
    request = ModelRequest(messages, images={REF["digest"]: DATA} if has else {})
    body = ChatApi("fake", "http://here").body(request)
    return list(body["messages"])


def test_a_plot_keeps_its_size_and_loses_what_it_says_of_itself() -> None:
    notes = PngImagePlugin.PngInfo()
    notes.add_text("Software", "a secret")
    picture = plain_picture(png(Image.new("RGB", (640, 480), "red"), pnginfo=notes))
    assert (picture.ref.media_type, picture.ref.width, picture.ref.height) == ("image/png", 640, 480)
    assert b"a secret" not in picture.data
    assert picture == plain_picture(png(Image.new("RGB", (640, 480), "red")))


@pytest.mark.parametrize("size", [(4000, 3000), (3000, 100), (100, 3000), (1500, 1500)])
def test_a_large_picture_is_made_as_large_as_is_of_use(size: tuple[int, int]) -> None:
    picture = plain_picture(png(Image.new("RGB", size, "red")))
    assert max(picture.ref.width, picture.ref.height) <= images.LONG_EDGE
    assert picture.ref.width * picture.ref.height <= images.SENT_PIXELS
    assert picture.ref.width / picture.ref.height == pytest.approx(size[0] / size[1], rel=0.03)
    assert decoded(picture).size == (picture.ref.width, picture.ref.height)


def test_a_photograph_is_upright_and_without_its_place() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # taken with the camera on its side
    exif[0x010E] = "at home"
    picture = plain_picture(jpeg(Image.new("RGB", (300, 100), "red"), exif=exif, comment="at home"))
    assert (picture.ref.media_type, picture.ref.width, picture.ref.height) == ("image/jpeg", 100, 300)
    assert b"at home" not in picture.data


@pytest.mark.parametrize(
    "raw",
    [
        png(Image.new("RGBA", (20, 10), (255, 0, 0, 0))),
        png(Image.new("P", (20, 10), 0), transparency=0),
    ],
    ids=["RGBA", "P"],
)
def test_what_is_transparent_stands_on_white(raw: bytes) -> None:
    picture = decoded(plain_picture(raw))
    assert (picture.mode, picture.getpixel((5, 5))) == ("RGB", (255, 255, 255))


def test_sixteen_bits_become_eight() -> None:
    deep = Image.new("I;16", (2, 1))
    deep.putpixel((1, 0), 65_535)
    picture = decoded(plain_picture(png(deep)))
    assert (picture.mode, picture.getpixel((0, 0)), picture.getpixel((1, 0))) == ("L", 0, 255)


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"", "neither PNG nor JPEG"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "neither PNG nor JPEG"),
        (b"\x89PNG\r\n\x1a\nnothing", "neither PNG nor JPEG"),
        (png(noise(200, 200))[:5_000], "damaged"),
        (b"\0" * (30 * 1024 * 1024), "31,457,280 bytes"),
        (png(Image.new("1", (30_000, 30_000))), "40,000,000 pixels"),
        (png(Image.new("1", (10_000, 10_000))), "40,000,000 pixels"),
        (png(Image.new("1", (7_000, 7_000))), "7000 x 7000 pixels"),
    ],
    ids=["empty", "svg", "header", "cut off", "30 MB", "bomb", "small bomb", "too many pixels"],
)
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


def test_a_prompts_pictures_stand_after_its_text() -> None:
    [sent] = messages_of({"role": "user", "content": "What is this?", "images": [REF]})
    assert sent == {"role": "user", "content": [{"type": "text", "text": "What is this?"}, URL]}


def test_a_picture_that_is_gone_is_a_line() -> None:
    line = {"type": "text", "text": "[A picture of 640 x 480 pixels is not attached here. You can't see it.]"}
    [sent] = messages_of({"role": "user", "content": "What is this?", "images": [REF]}, has=False)
    assert sent["content"] == [{"type": "text", "text": "What is this?"}, line]
