"""One module per scenario; each has `run(rounds) -> Report`. They run in this order."""

SCENARIOS: tuple[str, ...] = (
    "imports",
    "tokens",
    "steps",
    "approvals",
    "turns",
    "many_runs",
    "many_kernels",
    "growth",
    "kernel_steps",
    "click",
    "first_use",
    "page_bytes",
    "idle_memory",
    "saving",
    "flood",
    "cards",
    "large_output",
)
