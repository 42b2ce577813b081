"""The default limits of a host. They follow mature command-line agents. A module of its own: it imports nothing."""

RESULT_CHARACTERS = 25_000
RESULT_LINES = 1_000
STEP_CHARACTERS = 200_000
APPROVAL_SECONDS: float | None = None
STOP_SECONDS = 10.0
TOKEN_FLUSH_SECONDS = 0.03
SLOW_SECONDS = 3.0
VALIDATION_RETRIES = 3
PAUSE_AT_REPEATS = True
SEND_IMAGES = True
BUDGET = {"tool_calls": 100, "steps": 100}
