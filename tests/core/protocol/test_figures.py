"""Tokens and money as people read them. `widgets/tests/text.test.ts` has the same examples."""

import pytest

from agent_kernel.protocol.figures import money, spent, tokens
from agent_kernel.protocol.views import Usage

MONEY = [
    (0, "$0"),
    (0.0000004, "< $0.001"),
    (0.00099, "< $0.001"),
    (0.001, "$0.001"),
    (0.0042, "$0.004"),
    (0.01, "$0.01"),
    (0.0128, "$0.013"),
    (0.0994, "$0.099"),
    (0.0995, "$0.10"),
    (0.125, "$0.13"),
    (0.5, "$0.50"),
    (0.999, "$1.00"),
    (1.2, "$1.20"),
    (1234.5, "$1,234.50"),
]
AT_LEAST = [
    (0, "> $0"),
    (0.0009, "> $0"),
    (0.0048, "≥ $0.004"),
    (0.0999, "≥ $0.099"),
    (0.29, "≥ $0.29"),
    (0.999, "≥ $0.99"),
    (1234.567, "≥ $1,234.56"),
]
TOKENS = [
    (0, "0"),
    (900, "900"),
    (999, "999"),
    (1_150, "1.1k"),
    (1_250, "1.3k"),
    (18_240, "18.2k"),
    (3_400_000, "3.4M"),
]


@pytest.mark.parametrize(("usd", "said"), MONEY)
def test_an_amount(usd: float, said: str) -> None:
    assert money(usd) == said


@pytest.mark.parametrize(("usd", "said"), AT_LEAST)
def test_a_lower_bound_is_rounded_down_so_that_it_is_one(usd: float, said: str) -> None:
    assert money(usd, at_least=True) == said


@pytest.mark.parametrize(("count", "said"), TOKENS)
def test_a_count_of_tokens(count: int, said: str) -> None:
    assert tokens(count) == said


def test_what_a_run_has_spent() -> None:
    usage = Usage(input_tokens=1_234, output_tokens=340, total_tokens=1_574)
    assert spent(usage) == ["1.2k in", "340 out"]
    priced = usage.model_copy(update={"cost": 0.0042})
    assert spent(priced) == ["1.2k in", "340 out", "$0.004"]
    assert spent(priced.model_copy(update={"cost_is_partial": True})) == ["1.2k in", "340 out", "≥ $0.004"]
    assert spent(usage.model_copy(update={"cost_is_partial": True})) == ["1.2k in", "340 out"]
    assert spent(priced.model_copy(update={"estimated": True})) == ["about 1.2k in", "340 out", "$0.004"]
    assert spent(Usage()) == []
