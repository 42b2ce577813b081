"""Tells several runs of the same prompt apart."""

from agent_kernel.models.recordings.asked import Question

_MOST = 10_000


class Occurrences:
    """Numbers the runs of each prompt, from 1. A cell that is run again keeps its number."""

    def __init__(self) -> None:
        self._places: dict[str, list[tuple[str, int]]] = {}

    def number(self, question: Question) -> int:
        if len(self._places) >= _MOST and question.prompt not in self._places:
            self._places.clear()
        places = self._places.setdefault(question.prompt, [])
        place = (question.conversation, question.index)
        if place not in places:
            if len(places) >= _MOST:
                places.clear()
            places.append(place)
        return places.index(place) + 1
