"""The figures of a fault run, and the table that shows them."""

from dataclasses import dataclass, field, fields


@dataclass
class Figures:
    """Counts over all rounds. Everything but `rounds`, `kills` and `outcomes_answered` has to be zero."""

    rounds: int = 0
    kills: int = 0
    outcomes_answered: int = 0
    """Calls whose outcome was unknown, and for which a person said Run again or Continue."""
    approvals_lost: int = 0
    calls_run_twice: int = 0
    ran_undecided: int = 0
    buttons_dead: int = 0
    orphan_tool_calls: int = 0
    events_missing: int = 0
    dishonest_states: int = 0
    messages_lost: int = 0
    runs_left_open: int = 0
    interrupts_astray: int = 0
    """Those that ended nothing, or something else than what had the floor."""
    notes: list[str] = field(default_factory=list)
    """What went wrong, with the round that shows it again."""

    def fault(self, name: str, note: str, count: int = 1) -> None:
        setattr(self, name, getattr(self, name) + count)
        self.notes.append(f"{name}: {note}")

    def add(self, other: "Figures") -> None:
        for one in fields(self):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))

    @property
    def clean(self) -> bool:
        return not self.notes


def table(suites: dict[str, Figures]) -> str:
    """A Markdown table: one row for each suite, and the sum."""
    total = Figures()
    for one in suites.values():
        total.add(one)
    columns = [one.name for one in fields(Figures) if one.name != "notes"]
    rows = [["", *(column.replace("_", " ") for column in columns)], ["---", *("---:" for _ in columns)]]
    for name, one in {**suites, "all": total}.items():
        rows.append([name, *(str(getattr(one, column)) for column in columns)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
