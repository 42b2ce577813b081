"""Tokens and money as people read them."""

from agent_kernel.protocol.figures import spent
from agent_kernel.protocol.views import Usage


def test_what_a_run_has_spent() -> None:
    usage = Usage(input_tokens=1_234, output_tokens=340, total_tokens=1_574)
    assert spent(usage) == ["1.2k in", "340 out"]
    priced = usage.model_copy(update={"cost": 0.0042})
    assert spent(priced) == ["1.2k in", "340 out", "$0.004"]
    assert spent(priced.model_copy(update={"cost_is_partial": True})) == ["1.2k in", "340 out", "≥ $0.004"]
    assert spent(usage.model_copy(update={"cost_is_partial": True})) == ["1.2k in", "340 out"]
    assert spent(priced.model_copy(update={"estimated": True})) == ["about 1.2k in", "340 out", "$0.004"]
    assert spent(Usage()) == []
