"""Mistakes in Python with `ak.Agent` and its options: each is told where it is made, with what to write."""

import pytest

from tests.notebooks.kernel import TestKernel

pytestmark = [pytest.mark.kernel, pytest.mark.slow]
MODEL = "type('Own', (), {'stream': print})"


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("ak.Agent(model=3)", "A model is a name, such as 'gpt-6.1-sol' (%agent models lists them)"),
        (f"ak.Agent(model={MODEL}())", "'Own', which has no name, recorded"),
        ("ak.Agent().run('')", "The prompt is empty. Say what the agent should do."),
        ("ak.Agent(tools='run_python')", "tools is a list, such as [my_function]"),
        ("ak.Agent(budget=0.5)", "budget is an ak.Budget, such as ak.Budget(usd=0.50), not 'float'."),
        ("ak.Agent(timeouts={'run_pythn': 3})", "is named 'run_pythn'. It has run_python, "),
        ("ak.Policy(rules=[3])", "rules is a list of texts, such as ['deny run_shell']"),
        ("ak.edit('df.head()', 'run_python')", "a dict, such as {'code': '1 + 1'}, not 'str'"),
        ("ak.Agent().run('hi', approvals='yes')", "Decisions are a list, such as [True]"),
    ],
)
def test_a_mistake_is_told_with_what_to_write(kernel: TestKernel, code: str, said: str) -> None:
    reply = kernel.run(f"import agent_kernel as ak\n{code}").reply
    assert reply["ename"] in ("ConfigurationError", "ToolDeclarationError")
    assert said in reply["evalue"]
