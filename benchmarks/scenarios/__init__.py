"""One module per scenario; each has `run(rounds) -> Report`. They run in this order."""

SCENARIOS: tuple[str, ...] = (
    "imports",
    "tokens",
    "steps",
    "approvals",
    "turns",
    "many_runs",
    "kernel_steps",
    "click",
    "first_use",
    "embedded",
    "page_bytes",
    "idle_memory",
    "saving",
    "flood",
    "cards",
    "typing",
)
