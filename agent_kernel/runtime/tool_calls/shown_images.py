"""The pictures in a call's outputs, and their form for models."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from agent_kernel.models import images
from agent_kernel.models.images import MEDIA_TYPES, NoPicture
from agent_kernel.protocol.figures import plural
from agent_kernel.protocol.views import ImageRefs, OutputView

MOST_IMAGES = 8
"""The most pictures of one call for the model; a note names the number of the others."""
_MOST_CHARACTERS = 64 * 1024 * 1024
"""The most base64 that is held of a call while it runs. A kernel sends 16 MB per call at most."""


class ShownImages:
    """The current pictures among a call's outputs, without those that were cleared or replaced."""

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
        """Remove and return the pictures, in base64."""
        shown, self._shown = self._shown, []
        return [image for _, image in shown if image]


@dataclass(frozen=True, slots=True)
class Prepared:
    """Pictures in their form for a model."""

    refs: ImageRefs = field(default_factory=list)
    data: dict[str, bytes] = field(default_factory=dict)
    """By digest, for the log. Empty for pictures that no model gets."""
    note: str = ""
    """Text for the model about those that it can't be given."""


NO_PICTURES = Prepared()


def prepare(shown: Sequence[str], *, sent: bool) -> Prepared:
    """Make pictures ready to be `sent` to a model; else only their sizes are kept. Slow: call it in a thread."""
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
        notes.append(f"[{plural(more, 'more image')} that this call showed to the user: not given to you.]")
    return Prepared(refs, data, "\n".join(notes))


def prepare_one(raw: bytes, *, sent: bool) -> Prepared:
    """As `prepare`, for one picture. Raises `NoPicture`."""
    if not sent:
        return Prepared([images.unsent(raw)])
    picture = images.plain_picture(raw)
    return Prepared([asdict(picture.ref)], {picture.ref.digest: picture.data})
