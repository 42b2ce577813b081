"""The images of a recording: files beside it, compared by what they show."""

import base64
import binascii
import io
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from agent_kernel.models.images import NoPicture, plain_picture
from agent_kernel.models.recordings.format import Asked, RecordedImage
from agent_kernel.models.recordings.whole_files import replace_file
from agent_kernel.tools.builtin.safe_open import read_bytes

if TYPE_CHECKING:
    from PIL.Image import Image

LARGEST_IMAGE = 20 * 1024 * 1024
"""The largest image file that is read, in bytes."""
_SIDE = 512
"""Images are compared at this size, in pixels, so that fonts and smoothing of two versions of a library look alike."""
_NOTICEABLE = 40
"""The difference of one pixel's colour that counts, of 255."""
_MOST_CHANGED = 0.0005
"""The share of such pixels from which on images show something else."""
_OTHER_SIZE = 0.1
"""How much a width or height may differ, of the larger one."""


def directory_of(recording: Path) -> Path:
    return recording.with_name(f"{recording.stem}.images")


def images_of(asked: Asked) -> tuple[RecordedImage, ...]:
    return (*asked.images, *(image for result in asked.results for image in result.images))


def save(recording: Path, images: Iterable[RecordedImage], data: Mapping[str, str]) -> None:
    """Write those that are not there yet. `data` is base64 by digest. Raises `OSError`."""
    directory = directory_of(recording)
    for image in images:
        path = directory / image.file_name
        if image.sha256 in data and not path.exists():
            directory.mkdir(exist_ok=True)
            replace_file(path, base64.b64decode(data[image.sha256]))


def difference(recording: Path, image: RecordedImage, now: RecordedImage, data: Mapping[str, str]) -> str:
    """How an image differs from the recorded one, as a sentence; empty where both show the same."""
    if image.sha256 == now.sha256:
        return ""
    for one, other in ((image.width, now.width), (image.height, now.height)):
        if abs(one - other) > _OTHER_SIZE * max(one, other):
            return f"it has {now.width} x {now.height} pixels, and the recorded one {image.width} x {image.height}"
    path = directory_of(recording) / image.file_name
    try:
        recorded = read_bytes(Path(os.path.realpath(path)), LARGEST_IMAGE)
        share = _changed(recorded, base64.b64decode(data.get(now.sha256, "")))
    except OSError:
        return f"the recorded one, {path.parent.name}/{path.name}, can't be read"
    except (NoPicture, binascii.Error) as error:
        return f"they can't be compared: {error}"
    return f"{share:.1%} of it looks different from {path.parent.name}/{path.name}" if share > _MOST_CHANGED else ""


def _changed(recorded: bytes, now: bytes) -> float:
    """The share of pixels whose colour is not near that of the same place or its neighbours in the other image. Raises
    `NoPicture`."""
    before, after = (_small(one) for one in (recorded, now))
    return max(_beyond(before, after), _beyond(after, before))


def _beyond(one: "Image", other: "Image") -> float:
    from PIL import ImageChops, ImageFilter

    brighter = ImageChops.subtract(other, one.filter(ImageFilter.MaxFilter(3)))
    darker = ImageChops.subtract(one.filter(ImageFilter.MinFilter(3)), other)
    bands = ImageChops.lighter(brighter, darker).split()
    largest = ImageChops.lighter(ImageChops.lighter(bands[0], bands[1]), bands[2])
    return float(sum(largest.histogram()[_NOTICEABLE:])) / (_SIDE * _SIDE)


def _small(raw: bytes) -> "Image":
    from PIL import Image

    with Image.open(io.BytesIO(plain_picture(raw).data)) as picture:
        return picture.convert("RGB").resize((_SIDE, _SIDE), Image.Resampling.BOX)
