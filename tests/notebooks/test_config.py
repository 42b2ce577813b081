"""`%agent config`: defaults of a kernel's prompts."""

from typing import Any

import pytest
from IPython.core.error import UsageError

from agent_kernel.notebook.config import Defaults, words_of
from agent_kernel.notebook.magics import parse


def defaults() -> Defaults:
    def check(names: tuple[str, ...]) -> None:
        if "nothing" in names:
            raise UsageError("There is no tool 'nothing'.")

    return Defaults(check)


def test_defaults_are_set_shown_cleared_one_by_one_and_all_at_once() -> None:
    found = defaults()
    assert "no defaults" in found.text()
    found.change(["model=demo", "wait=true", "policy=plan", "effort=low", "tools=run_python,mine"])
    assert found.line() == "model=demo policy=plan wait=true effort=low tools=run_python,mine"
    found.change(["model=", "wait=false"])
    assert found.line() == "policy=plan wait=false effort=low tools=run_python,mine"
    found.change(["reset"])
    assert found.values == {}


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("policy=all", "There is no policy 'all'. Use ask, edit, allow, deny or plan."),
        ("effort=most", "There is no effort 'most'. Use low, medium or high."),
        ("wait=yes", "There is no wait 'yes'. Use true or false."),
        ("colour=red", "There are model, policy, wait, effort, tools."),
        ("tools=nothing", "There is no tool 'nothing'."),
    ],
)
def test_a_wrong_default_says_what_there_is_and_changes_nothing(word: str, said: str) -> None:
    found = defaults()
    found.change(["model=demo"])
    with pytest.raises(UsageError, match=said.replace("?", "[?]")):
        found.change(["effort=low", word])
    assert found.line() == "model=demo"


def test_what_the_line_says_wins() -> None:
    values = {"model": "demo", "wait": True, "policy": "plan"}
    plain = parse("", values)
    assert (plain.model, plain.wait, plain.policy) == ("demo", True, "plan")
    other = parse("--wait=false --policy ask --model m Go", values)
    assert (other.model, other.wait, other.policy, other.prompt) == ("m", False, "ask", "Go")


def test_the_settings_of_a_page_are_below_the_kernels_own_and_a_wrong_one_is_left_out() -> None:
    found = defaults()
    found.change(["model=mine"])
    found.take_page({"model": "theirs", "effort": "low", "policy": "all", "wait": "true", "tools": "run_shell"})
    assert found.in_force == {"model": "mine", "effort": "low", "wait": True}
    assert "this page's settings: model=theirs wait=true effort=low" in found.text()
    found.take_page({})
    assert found.in_force == {"model": "mine"}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("config", []),
        ("config reset", ["reset"]),
        ("config model='a b' wait=true", ["model=a b", "wait=true"]),
        ("config the database", None),
        ("config what isn't there", None),
        ("configure model=x", None),
    ],
)
def test_a_prompt_may_begin_with_the_word(line: str, words: Any) -> None:
    assert words_of(line) == words
