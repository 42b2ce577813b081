"""The pictures that a call shows, from its outputs to what a model may be given of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from agent_kernel.models import images
from agent_kernel.models.images import MEDIA_TYPES, NoPicture
from agent_kernel.protocol.views import ImageRefs, OutputView

MOST_IMAGES = 8
"""Of one call. The model is told of the others."""
_MOST_CHARACTERS = 64 * 1024 * 1024
"""Of all that is held of a call while it runs, in base64. A kernel shows 16 MB of one call at most."""


class ShownImages:
    """The pictures among a call's outputs as they stand: what was cleared or replaced is gone."""

    def __init__(self) -> None:
        self._shown: list[tuple[str | None, str]] = []
        self._characters = 0

    def add(self, output: OutputView) -> None:
        if output.kind == "clear":
            self._shown.clear()
            self._characters = 0
        if output.kind != "display":
            return
        image = next((data for kind in MEDIA_TYPES if isinstance(data := output.data.get(kind), str)), "")
        places = [place for place, _ in self._shown] if output.display_id is not None else []
        place = places.index(output.display_id) if output.display_id in places else None
        self._characters += len(image) - (len(self._shown[place][1]) if place is not None else 0)
        if self._characters > _MOST_CHARACTERS:
            self._characters -= len(image)
            image = ""
        if place is not None:
            self._shown[place] = (output.display_id, image)
        elif image or output.display_id is not None:
            self._shown.append((output.display_id, image))

    def take(self) -> list[str]:
        """What is there at the end, in base64. Nothing is held from then on."""
        shown, self._shown = self._shown, []
        return [image for _, image in shown if image]


@dataclass(frozen=True, slots=True)
class Prepared:
    """What becomes of the pictures of a call."""

    refs: ImageRefs = field(default_factory=list)
    data: dict[str, bytes] = field(default_factory=dict)
    """What the log keeps, by digest; nothing of what no model gets."""
    note: str = ""
    """What the model is told of those that it can't be given."""


NO_PICTURES = Prepared()


def prepare(shown: Sequence[str], *, sent: bool) -> Prepared:
    """Make pictures ready to be `sent` to a model; else only their size is of interest. Takes long: call it in a
    thread."""
    refs: ImageRefs = []
    data: dict[str, bytes] = {}
    notes: list[str] = []
    for image in shown[:MOST_IMAGES]:
        try:
            one = prepare_one(images.decode(image), sent=sent)
            refs += one.refs
            data |= one.data
        except NoPicture as reason:
            notes.append(f"[An image was shown to the user that can't be given to you: {reason}.]")
    if (more := len(shown) - MOST_IMAGES) > 0:
        notes.append(f"[{more} more of the images that this call showed to the user are not given to you.]")
    return Prepared(refs, data, "\n".join(notes))


def prepare_one(raw: bytes, *, sent: bool) -> Prepared:
    """The same for one picture. Raises `NoPicture`."""
    if not sent:
        return Prepared([images.unsent(raw)])
    picture = images.plain_picture(raw)
    return Prepared([images.as_dict(picture.ref)], {picture.ref.digest: picture.data})
