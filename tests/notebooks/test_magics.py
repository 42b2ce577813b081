"""`%%agent` and `%agent` as a user types them."""

from collections.abc import Callable

import pytest

from agent_kernel.notebook.magics import Options, parse
from tests.notebooks.kernel import TestKernel

pytestmark = [pytest.mark.kernel, pytest.mark.slow]


@pytest.mark.parametrize(
    ("line", "options"),
    [
        ("", Options()),
        ("--wait What's in `df`?  Say {x}", Options(wait=True, prompt="What's in `df`?  Say {x}")),
        ("--effort high --model m hi", Options(effort="high", model="m", prompt="hi")),
        ("--model=demo --new", Options(model="demo", new=True)),
        ("--tools run_python,drop_rows", Options(tools=("run_python", "drop_rows"))),
        ("-- --wait is a word here", Options(prompt="--wait is a word here")),
    ],
)
def test_options_stand_before_the_prompt(line: str, options: Options) -> None:
    assert parse(line) == options


def test_what_the_line_says_wins_over_the_defaults() -> None:
    found = parse("--wait=false --model m Go", {"model": "demo", "wait": True, "policy": "plan"})
    assert (found.model, found.wait, found.policy, found.prompt) == ("m", False, "plan", "Go")


@pytest.fixture
def magic_kernel(kernel: TestKernel) -> TestKernel:
    kernel.run("%load_ext agent_kernel\nimport agent_kernel as ak")
    return kernel


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ("%%agent --bogus\nhi", "There is no option --bogus"),
        ("%%agent --tools nosuch\nhi", "There is no tool 'nosuch'. The built-in tools are: run_python"),
        ("%%agent --model\nhi", "--model wants a value"),
        ("%agent --wait", "The prompt is empty"),
        (
            "%agent hsitory",
            "There is no command 'hsitory'. Did you mean %agent history? To ask the agent, use %%agent.",
        ),
        ("%agent config policy plan", "Write %agent config policy=plan."),
        ("x = 1\n%%agent --model demo\nPlot it", "%%agent has to be the first line of its cell"),
    ],
)
def test_a_mistake_is_one_clear_message(magic_kernel: TestKernel, cell: str, said: str) -> None:
    result = magic_kernel.run(cell)
    assert result.reply["status"] == "error"
    assert [kind for kind, _ in result.outputs] == ["stream"]
    assert result.streams().startswith("UsageError: ")
    assert said in result.streams()


def test_a_text_that_has_the_magic_in_it_is_a_text(magic_kernel: TestKernel) -> None:
    magic_kernel.run("text = '''\n%%agent\nPlot it\n'''")
    assert magic_kernel.value("len(text.split())") == "3"


@pytest.mark.parametrize(
    ("cell", "prompt"),
    [
        ("%agent what's in 'df'?", "what's in 'df'?"),
        ("%agent status of the run", "status of the run"),
        ("%agent config policy of this site", "config policy of this site"),
        ("%%agent\nstatus", "status"),
        ("%%agent\n# Title\n\n- `{x}` and $y\n", "# Title\n\n- `{x}` and $y"),
    ],
)
def test_a_prompt_comes_as_it_was_written_and_may_have_the_words_of_commands(
    magic_kernel: TestKernel, cell: str, prompt: str
) -> None:
    magic_kernel.run(cell)
    assert magic_kernel.value("ak.last_run().prompt") == repr(prompt)


def test_without_a_model_the_cell_says_how_to_configure_one_and_offers_the_demo(magic_kernel: TestKernel) -> None:
    (shown,) = magic_kernel.run("%%agent\nhi").shown()
    assert "OPENAI_API_KEY" in shown
    assert "--model demo" in shown


def test_help_is_shown_by_its_names_and_by_an_empty_prompt(magic_kernel: TestKernel) -> None:
    for cell in ("%agent", "%agent help", "%%agent", "%%agent \n  \n", "%%agent --help", "%%agent -h\nCount."):
        assert "--policy P" in magic_kernel.run(cell).streams(), cell


def test_prompts_continue_one_conversation_until_a_new_one_is_asked_for(magic_kernel: TestKernel) -> None:
    ids = []
    for options in ("", "", "--new"):
        magic_kernel.run(f"%agent {options} --model demo hello")
        ids.append(magic_kernel.value("ak.last_run().conversation_id"))
    assert ids[0] == ids[1] != ids[2]


def test_an_older_ipykernel_is_told_what_to_do(start_kernel: Callable[..., TestKernel]) -> None:
    kernel = start_kernel()
    said = kernel.run("import ipykernel\nipykernel.__version__ = '6.29.5'\n%load_ext agent_kernel").outputs
    assert "needs ipykernel 7 or newer, and this kernel has 6.29.5" in str(said)
    assert "%pip install --upgrade ipykernel" in str(said)
