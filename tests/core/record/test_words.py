"""What the cards and the record say alike comes from one place."""

import json
from pathlib import Path

from agent_kernel.record.words import SHARED

GENERATED = Path(__file__).parents[3] / "widgets" / "src" / "text" / "words.gen.ts"


def test_the_cards_have_the_words_of_the_record() -> None:
    text = GENERATED.read_text(encoding="utf-8")
    words = json.loads(text[text.index("{") : text.rindex("}") + 1])
    assert words == SHARED, "stale: run `npm run types` in widgets"
