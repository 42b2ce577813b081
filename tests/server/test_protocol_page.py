"""The client in docs/protocol.md does what the page says."""

import re
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from agent_kernel.testing import FakeOpenAI, call, say
from tests.server.client import Kernel
from tests.server.serving import Server

PAGE = Path(__file__).parents[2] / "docs" / "protocol.md"


@pytest.fixture
def ask() -> Callable[..., Awaitable[str]]:
    """The function of the page's example."""
    (program,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, Callable[..., Awaitable[str]]] = {"__name__": "example"}  # type: ignore[dict-item]
    exec(compile(program, str(PAGE), "exec"), names)
    return names["ask"]


@pytest.mark.kernel
async def test_the_example_asks_a_person_and_prints_the_answer(
    ask: Callable[..., Awaitable[str]],
    kernel: Kernel,
    server: Server,
    model: FakeOpenAI,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    questions: list[str] = []

    def answer(question: str) -> str:
        questions.append(question)
        return "y"

    monkeypatch.setattr("builtins.input", answer)
    model.add(call("run_python", code="answer = 6 * 7"))
    model.add(say("It is 42."))
    address = f"http://localhost:{server.port}{server.app.base_url}"
    assert await ask(address, server.app.identity_provider.token, "What is 6 * 7?", kernel.kernel_id) == "It is 42."
    assert ["run_python" in question and "6 * 7" in question for question in questions] == [True]
    assert await kernel.text("print(answer)") == "42\n"
