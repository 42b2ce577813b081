"""`%agent config`: defaults of a kernel's prompts."""

from typing import Any

import pytest
from IPython.core.error import UsageError

from agent_kernel.notebook.config import Defaults, words_of


def test_the_settings_of_a_page_are_below_the_kernels_own_and_a_wrong_one_is_left_out() -> None:
    found = Defaults(lambda _names: None)
    found.change(["model=mine"])
    found.take_page({"model": "theirs", "effort": "low", "policy": "all", "wait": "true", "tools": "run_shell"})
    assert found.in_force == {"model": "mine", "effort": "low", "wait": True}
    assert "this page's settings: model=theirs wait=true effort=low" in found.text()
    found.take_page({})
    assert found.in_force == {"model": "mine"}
    found.change(["wait=false", "tools=run_python,mine", "model="])
    assert found.line() == "wait=false tools=run_python,mine"
    found.change(["reset"])
    assert found.values == {}


def test_a_wrong_default_says_what_there_is_and_changes_nothing() -> None:
    found = Defaults(lambda _names: None)
    found.change(["model=demo"])
    for word, said in (("policy=all", "There is no policy 'all'. Use ask, edit,"), ("colour=red", "There are model,")):
        with pytest.raises(UsageError, match=said):
            found.change(["effort=low", word])
    assert found.line() == "model=demo"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("config reset", ["reset"]),
        ("config model='a b' wait=true", ["model=a b", "wait=true"]),
        ("config the database", None),
        ("config what isn't there", None),
    ],
)
def test_a_prompt_may_begin_with_the_word(line: str, words: Any) -> None:
    assert words_of(line) == words
