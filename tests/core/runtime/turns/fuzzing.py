"""How long the property tests run: briefly by default, with `HYPOTHESIS_PROFILE=long` for ten minutes or more."""

import os

from hypothesis import HealthCheck, Phase, settings

LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"


def rounds(brief: int, long: int, *, stateful_step_count: int = 50) -> settings:
    """Settings for a test that makes this many examples. Real files and sockets take the time they take."""
    return settings(
        max_examples=long if LONG else brief,
        deadline=None,
        print_blob=True,
        phases=[phase for phase in Phase if phase is not Phase.explain],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
        stateful_step_count=stateful_step_count,
    )
