"""The scenarios: each is a function `NAME(rounds) -> Report` whose docstring begins with what it measures."""

SCENARIOS: dict[str, str] = {
    "imports": "starts",
    "tokens": "loop",
    "steps": "loop",
    "approvals": "loop",
    "turns": "loop",
    "many_runs": "loop",
    "kernel_steps": "calls",
    "click": "calls",
    "first_use": "starts",
    "embedded": "starts",
    "idle_memory": "starts",
    "page_bytes": "page",
    "saving": "page",
    "flood": "page",
    "cards": "cards",
    "typing": "page",
}
"""The module of each, in the order in which they run."""
