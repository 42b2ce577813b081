"""Pictures for tests."""

import base64
import io
from collections.abc import Callable

from PIL import Image

from agent_kernel.models.base import ModelFacts
from agent_kernel.protocol.calls import ApprovedCall, Outcome
from agent_kernel.protocol.views import OutputView
from agent_kernel.tools.executor import OutputSink

SEES = ModelFacts(images=True)
"""A model that takes pictures."""


def png_bytes(width: int = 64, height: int = 48, color: str = "red") -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (width, height), color).save(file, "PNG")
    return file.getvalue()


def in_base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def plot(width: int = 64, height: int = 48, color: str = "red", display_id: str | None = None) -> OutputView:
    data = {"image/png": in_base64(png_bytes(width, height, color)), "text/plain": "<Figure>"}
    return OutputView(kind="display", data=data, display_id=display_id)


def draws(*outputs: OutputView) -> Callable[[ApprovedCall, OutputSink], Outcome]:
    """For an executor: every call shows these outputs."""

    def act(_: ApprovedCall, emit: OutputSink) -> Outcome:
        for output in outputs:
            emit(output)
        return Outcome("success", "<Figure>")

    return act


def size_of(data: str) -> tuple[int, int]:
    """Of a picture in base64, as a request holds it."""
    with Image.open(io.BytesIO(base64.b64decode(data))) as image:
        return image.size
