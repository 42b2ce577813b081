"""What is asked of a run, as frozen values. Both hosts build these; the loop reads them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agent_kernel.approvals.folder_file import NO_LIMITS, FolderLimits
from agent_kernel.approvals.user_rules import UserRules
from agent_kernel.protocol.views import BudgetLimits
from agent_kernel.protocol.vocabulary import Effort, PolicyMode
from agent_kernel.tools.declaration import ToolDeclaration

MOST_RULES, MOST_RULE_CHARACTERS = 200, 10_000
"""Of a notebook's own rules: a run's header shows each."""
MOST_REPLACED = 100
"""So many earlier runs of a cell are named at most."""


@dataclass(frozen=True, slots=True)
class RunSpec:
    """One run, as its author declared it."""

    run_id: str
    prompt: str
    model: str | None = None
    """A name that the host's configuration resolves; `None` means its default."""
    tools: tuple[ToolDeclaration, ...] = ()
    policy: PolicyMode | None = None
    """`None` means ask."""
    rules: tuple[str, ...] = ()
    """The notebook's own rules (`agent_kernel.approvals.rules`); a site's cap drops those that allow."""
    system: str | None = None
    budget: BudgetLimits = field(default_factory=BudgetLimits)
    conversation_budget: BudgetLimits = field(default_factory=BudgetLimits)
    """Of all runs of the conversation together; the host's holds where it is smaller."""
    effort: Effort | None = None
    """How much the model should reason; `None` leaves it to the model."""
    widget_model_id: str | None = None
    """The widget that shows the run: the key by which its record finds its place in the saved notebook."""
    replaces: tuple[str, ...] = ()
    """Earlier runs of the same cell, which was run again: what was said in them is left out for the model."""
    continues: int | None = None
    """The number of the cell whose conversation this one's prompt continues, as in `[2]`."""
    cell_id: str | None = None
    """The cell that started it, where its front end names cells."""
    notebook_path: str | None = None
    """The notebook of that cell, as the server that hosts the run knows it; the log follows it when it is renamed."""
    prompt_in_cell: bool = False
    """Whether the source of the cell that shows the run has the prompt: its record does not say it again."""
    limits: FolderLimits = NO_LIMITS
    """What the files in the notebook's folder asked for when the run began; no later reading loosens it."""
    watched: bool = False
    """Whether somebody follows the run without a page: it waits for answers as where a page shows it."""


@dataclass(frozen=True, slots=True)
class RuntimeSettings:
    """Limits of a host. Numbers from mature command-line agents; all configurable."""

    default_model: str | None = None
    policy_cap: PolicyMode | None = None
    """The most permissive mode a notebook may choose; a site sets it."""
    site_rules: tuple[str, ...] = ()
    user_rules: UserRules | None = None
    """Keeps the rules for all notebooks where the log does not outlive the process."""
    read_limits: Callable[[str | None], FolderLimits] | None = None
    """Reads the files in the folder of a notebook, by its path, that tighten its runs. Called in a thread."""
    approval_seconds: float | None = None
    """A waiting call expires after this time; `None` means never."""
    result_characters: int = 25_000
    result_lines: int = 1_000
    step_characters: int = 200_000
    output_directory: Path | None = None
    """Where outputs go that are too long for the model; `None` means `tools.spill.outputs_directory`."""
    suspend_seconds: float = 10.0
    """A run that has only waited for decisions for this long keeps nothing in memory until it is decided on, unless it
    is one of a few."""
    runs_in_memory: int = 4
    """So many runs are not worth it to be suspended: a decision on one in memory is acted on sooner."""
    client_seconds: float | None = 10.0
    """How long a run that would wait for a person as a whole waits for a page to show it, where none has; then it does
    what it does where nobody is there. `None` where the host looks after that itself."""
    stop_seconds: float = 10.0
    """How long an interrupted call may take to end before its outcome counts as unknown."""
    tool_timeouts: Mapping[str, float] = field(default_factory=dict)
    """Seconds that a call of a tool may run, by the tool's name; no longer than what the tool itself declares."""
    token_flush_seconds: float = 0.03
    validation_retries: int = 3
    pause_at_repeats: bool = True
    """Whether a run that repeats itself asks before it goes on."""
    send_images: bool = True
    """Whether models are given the pictures that calls show and prompts have."""
    default_budget: BudgetLimits = field(default_factory=lambda: BudgetLimits(tool_calls=100, steps=100))
    conversation_budget: BudgetLimits = field(default_factory=BudgetLimits)
    """Hard limits of all runs of a conversation together. A notebook may set smaller ones."""
