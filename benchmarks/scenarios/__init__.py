"""One module per scenario; each has `run(rounds) -> Report`. They run in this order."""

SCENARIOS: tuple[str, ...] = (
    "imports",
    "tokens",
    "steps",
    "approvals",
    "turns",
    "paused",
    "growth",
    "first_use",
    "click",
    "flood",
    "cards",
    "large_output",
)
