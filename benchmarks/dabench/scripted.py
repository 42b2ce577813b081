"""Reads answers that were written as code, and plays them in the place of a model.

They stand in files of the percent format, one for each table: a cell that is titled `common`, whose code every answer
of the file begins with, and a cell for each question, titled with its id. A cell prints its answers in the question's
form. They show what the notebooks, the kernel, the log and the grading make of a right answer.
"""

import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from agent_kernel.models.base import ModelTurn
from agent_kernel.testing import FakeOpenAI, call, say
from agent_kernel.testing.wire import chat
from agent_kernel.testing.wire.schemas import check_chat_request
from benchmarks.dabench.dataset import DabenchError

ANSWERS = Path(__file__).with_name("answers")
DISPUTED = Path(__file__).with_name("disputed_labels.toml")
COMMON = "common"
MODEL = "answer-to-"
"""The name of the stand-in, followed by the question's id: how it knows which question it is asked."""
_TITLE = re.compile(r"^# %% +(\S+)[^\S\n]*\n", re.MULTILINE)
_PRINTED = re.compile(r"^.*@\w+\[.*\].*$", re.MULTILINE)


def read_code(folder: Path) -> dict[int, str]:
    """The code of each question that has an answer, by the question's id. Raises `DabenchError`."""
    codes: dict[int, str] = {}
    for path in sorted(folder.glob("*.py")):
        common = ""
        _, *cells = _TITLE.split(path.read_text(encoding="utf-8"))
        for title, code in zip(cells[::2], cells[1::2], strict=True):
            if title == COMMON:
                common = f"{code.strip()}\n\n"
            elif not title.isdecimal():
                raise DabenchError(f"{path}: a cell is titled {title!r}. Title it {COMMON}, or with a question's id.")
            elif int(title) in codes:
                raise DabenchError(f"{path}: question {title} has an answer already. Remove one of them.")
            else:
                codes[int(title)] = f"{common}{code.strip()}\n"
    return codes


def read_disputed(path: Path = DISPUTED) -> dict[int, str]:
    """Why answers differ from their labels, by the question's id: where they do, the label is wrong, or one reading of
    several."""
    entries = tomllib.loads(path.read_text(encoding="utf-8"))
    return {int(number): " ".join(str(reason).split()) for number, reason in entries.items()}


class _Chat(FakeOpenAI):
    """Speaks Chat Completions only, so that tool messages have one form."""

    routes: ClassVar = {"/v1/chat/completions": chat.streamed}
    checks: ClassVar = {"/v1/chat/completions": check_chat_request}


def player(codes: Mapping[int, str]) -> FakeOpenAI:
    """A model service that answers each question with one call of its code, and then with what the code printed."""
    return _Chat([_turns(codes)], repeat=True)


def environment(service: FakeOpenAI, question: int) -> dict[str, str]:
    """The variables with which a kernel asks that service for the answer to a question."""
    return service.environment(f"openai/{MODEL}{question}")


def _turns(codes: Mapping[int, str]) -> Callable[[dict[str, Any]], ModelTurn]:
    def turn(body: dict[str, Any]) -> ModelTurn:
        results = [message["content"] for message in body["messages"] if message["role"] == "tool"]
        if not results:
            return call("run_python", code=codes[int(body["model"].removeprefix(MODEL))])
        printed = _PRINTED.findall(str(results[-1]))
        return say("\n".join(printed) or "The code printed no answer.")

    return turn
