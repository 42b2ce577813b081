"""Whether two pictures show the same, so that a changed plot is noticed and no other version of a font.

Two pictures show the same if each small piece of one is found in the other, at most `_SHIFT` pixels away, in about the
same colours. Renderers differ by less: in how they smooth edges and letters, in a pixel of a plot's size, and in what
they write into the file beside the picture. What is smaller goes unnoticed: a point that moved by two pixels, or one
letter for a similar one. The limits were set by plots that two versions of matplotlib have drawn.
"""

import io
from math import ceil, sqrt
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL.Image import Image

_SHIFT = 2
"""The most pixels by which a piece of a picture may have moved."""
_RESIZED = 4
"""The most pixels by which the width or height may differ."""
_MARGIN = 2 * (_SHIFT + _RESIZED)
"""Around the pictures, so that what is shifted out on one side does not come in on the other."""
_PIECE = 4
"""A piece is a square of twice as many pixels and one."""
_SMOOTHED = 1.2
"""The deviation, in pixels, of the blur that evens out how edges are drawn."""
_UNLIKE = 28
"""The most by which a piece may differ on average, of 255."""
_SHADED, _SHADED_AREA = 12, 0.01
"""A fainter difference, and the share of the picture that may show it."""
_MOST_PIXELS = 1_000_000
"""Larger pictures are reduced before they are compared."""
_LARGEST = 64_000_000
"""Pictures with more pixels are not decoded."""


def picture_difference(saved: bytes, now: bytes) -> str:
    """What two pictures in PNG or JPEG show differently, as a sentence; empty if they show the same."""
    if saved == now:
        return ""
    first, second = _decoded(saved), _decoded(now)
    if first is None or second is None:
        return "It can't be decoded, or is too large for that, and its bytes differ."
    if max(abs(first.width - second.width), abs(first.height - second.height)) > _RESIZED:
        return f"Its size was {first.width} x {first.height} pixels and is {second.width} x {second.height}."
    if first.size == second.size and first.tobytes() == second.tobytes():
        return ""
    times = ceil(sqrt(second.width * second.height / _MOST_PIXELS))
    return _differing(first.reduce(times), second.reduce(times), times)


def _decoded(data: bytes) -> "Image | None":
    """The picture on white; `None` if it is none, or too large."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(data), formats=("PNG", "JPEG")) as picture:
            if picture.width * picture.height > _LARGEST:
                return None
            clear = picture.convert("RGBA")
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):
        return None
    return Image.alpha_composite(Image.new("RGBA", clear.size, "white"), clear).convert("RGB")


def _differing(first: "Image", second: "Image", times: int) -> str:
    from PIL import ImageChops

    red, green, blue = _least_differences(first, second).split()
    grey = ImageChops.lighter(ImageChops.lighter(red, green), blue)
    counts = grey.histogram()
    shaded = sum(counts[_SHADED + 1 :]) / (grey.width * grey.height)
    if not any(counts[_UNLIKE + 1 :]) and shaded <= _SHADED_AREA:
        return ""
    limit = _UNLIKE if any(counts[_UNLIKE + 1 :]) else _SHADED
    mask = grey.point([255 if value > limit else 0 for value in range(256)])
    left, top, right, bottom = (edge * times for edge in mask.getbbox() or (0, 0, 0, 0))
    return (
        f"It shows something else between x {left} and {right}, y {top} and {bottom} "
        f"({second.width * times} x {second.height * times} pixels)."
    )


def _least_differences(first: "Image", second: "Image") -> "Image":
    """For each pixel, the difference of the pieces around it, at the shift at which they differ least."""
    from PIL import ImageChops, ImageFilter

    wider, higher = second.width - first.width, second.height - first.height
    size = (max(first.width, second.width), max(first.height, second.height))
    one, other = _prepared(first, size), _prepared(second, size)
    least: Image | None = None
    for right in range(-_SHIFT - max(wider, 0), _SHIFT + max(-wider, 0) + 1):
        for down in range(-_SHIFT - max(higher, 0), _SHIFT + max(-higher, 0) + 1):
            moved = ImageChops.offset(other, right, down)
            difference = ImageChops.difference(one, moved).filter(ImageFilter.BoxBlur(_PIECE))
            least = difference if least is None else ImageChops.darker(least, difference)
    assert least is not None
    return least.crop((_MARGIN, _MARGIN, _MARGIN + size[0], _MARGIN + size[1]))


def _prepared(picture: "Image", size: tuple[int, int]) -> "Image":
    from PIL import Image, ImageFilter

    canvas = Image.new("RGB", (size[0] + 2 * _MARGIN, size[1] + 2 * _MARGIN), "white")
    canvas.paste(picture, (_MARGIN, _MARGIN))
    return canvas.filter(ImageFilter.GaussianBlur(_SMOOTHED))
