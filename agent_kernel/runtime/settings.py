"""The specification of a run and the settings of a host, as frozen values."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from agent_kernel.approvals.folder_file import NO_LIMITS, FolderLimits
from agent_kernel.instructions import NO_INSTRUCTIONS, Instructions
from agent_kernel.protocol.decisions import ScriptedDecision
from agent_kernel.protocol.kernel import RunDeclaration
from agent_kernel.protocol.vocabulary import BudgetLimits, Effort, PolicyMode, WallLevel
from agent_kernel.tools.declaration import ToolDeclaration

if TYPE_CHECKING:
    from agent_kernel.approvals.user_rules import UserRules
    from agent_kernel.tools.executor import ServerTools


@dataclass(frozen=True, slots=True)
class ClientCall:
    """A call that an agent outside asks for."""

    client: str
    """The name that it gave."""
    home: str
    """See `ConversationRow.client_home`."""
    tool_name: str
    arguments: str
    """Canonical JSON."""
    digest: str


@dataclass(frozen=True, slots=True)
class RunSpec:
    """One run as it was asked for."""

    run_id: str
    prompt: str
    model: str | None = None
    """A name that the host's configuration resolves; `None` means its default."""
    tools: tuple[ToolDeclaration, ...] = ()
    server_tools: tuple[str, ...] | None = None
    """Patterns of the tools of MCP servers that it wants, such as `github.*`; `None` means all."""
    server_cache: tuple[str, ...] = ()
    """Names of tools of MCP servers whose outcomes may be given again: a person has named them, no server can."""
    policy: PolicyMode | None = None
    """`None` means ask."""
    rules: tuple[str, ...] = ()
    """The notebook's own rules (`agent_kernel.approvals.rules`); a site's cap drops those that allow."""
    script: tuple[ScriptedDecision, ...] = ()
    """Decisions on calls that ask, in place of a person's: see `agent_kernel.runtime.tool_calls.script_decisions`."""
    system: str | None = None
    budget: BudgetLimits = field(default_factory=BudgetLimits)
    conversation_budget: BudgetLimits = field(default_factory=BudgetLimits)
    """For all runs of the conversation together. The host's limit applies where it is smaller."""
    effort: Effort | None = None
    """How much the model should reason; `None` leaves it to the model."""
    widget_model_id: str | None = None
    """The widget that shows the run: the key by which its record finds its place in the saved notebook."""
    replaces: tuple[str, ...] = ()
    """Earlier runs of the same cell, which was run again. Their messages are left out of the model's requests."""
    continues: int | None = None
    """The number of the cell whose conversation this one's prompt continues, as in `[2]`."""
    cell_id: str | None = None
    """The cell that started it, where its front end names cells."""
    notebook_path: str | None = None
    """The path of that cell's notebook on the server; the log keeps it current when the notebook is renamed."""
    prompt_in_cell: bool = False
    """Whether the source of the cell that shows the run contains the prompt; its record does not repeat it then."""
    limits: FolderLimits = NO_LIMITS
    """The limits in the files of the notebook's folder when the run began. Reading them again never loosens these."""
    instructions: Instructions = NO_INSTRUCTIONS
    """How to work here, as files of the user and of the notebook's folder say; read again where a run is resumed."""
    watched: bool = False
    """Whether a client without a page follows the run; it waits for answers then as if a page showed it."""
    client_call: ClientCall | None = None
    """The one call of a run that an agent outside asks for. No model is asked then."""
    prompt_id: str | None = None
    """The id of the prompt's message, where a client has given it one; `None` lets the log choose."""
    prompt_images: list[dict[str, Any]] = field(default_factory=list)
    """Pictures that were sent with the prompt (`Conversation.keep_pictures`), as `protocol.views.ImageRefs`."""

    @classmethod
    def from_declaration(cls, declaration: RunDeclaration) -> Self:
        """The run as a kernel declares it. The server's own fields have their defaults."""
        return cls(
            run_id=declaration.run_id,
            prompt=declaration.prompt,
            model=declaration.model,
            tools=declaration.tools,
            server_tools=declaration.server_tools,
            server_cache=declaration.server_cache,
            policy=declaration.policy,
            rules=declaration.rules,
            script=declaration.script,
            system=declaration.system,
            budget=declaration.budget,
            conversation_budget=declaration.conversation_budget,
            effort=declaration.effort,
            widget_model_id=declaration.widget_model_id,
            replaces=declaration.replaces,
            continues=declaration.continues,
            cell_id=declaration.cell_id,
            prompt_in_cell=declaration.prompt_in_cell,
        )


@dataclass(frozen=True, slots=True)
class RuntimeSettings:
    """Limits of a host. Their defaults follow mature command-line agents."""

    default_model: str | None = None
    policy_cap: PolicyMode | None = None
    """The most permissive mode a notebook may choose; a site sets it."""
    site_rules: tuple[str, ...] = ()
    shell_walls: WallLevel = "workspace"
    """The walls around shell commands; a file in a notebook's folder may make them stricter."""
    shell_environment: tuple[str, ...] = ()
    """Variables that a command inside walls may know, beside those that it always may."""
    hidden_paths: tuple[str, ...] = ()
    """What a command inside walls can't open, beside what is always hidden: the host's own files."""
    user_rules: "UserRules | None" = None
    """Keeps the rules for all notebooks where the log does not outlive the process."""
    read_limits: Callable[[str | None], FolderLimits] | None = None
    """Reads the files in the folder of a notebook, by its path, that tighten its runs. Called in a thread."""
    read_instructions: Callable[[str | None], Instructions] | None = None
    """Reads the files that say how to work in the folder of a notebook, by its path. Called in a thread."""
    server_tools: "ServerTools | None" = None
    """The tools of MCP servers, where the host has some."""
    approval_seconds: float | None = None
    """A waiting call expires after this time; `None` means never."""
    result_characters: int = 25_000
    result_lines: int = 1_000
    step_characters: int = 200_000
    output_directory: Path | None = None
    """The folder for outputs that are too long for the model; `None` means `tools.truncation.outputs_directory`."""
    client_seconds: float | None = 10.0
    """How long a run that needs a person as a whole waits for a page to show it, before it continues as an unattended
    run does. `None` where the host handles that itself."""
    stop_seconds: float = 10.0
    """How long an interrupted call may take to end before its outcome counts as unknown."""
    tool_timeouts: Mapping[str, float] = field(default_factory=dict)
    """Seconds that a call may run, by the tool's name. A shorter time that the tool declares itself applies first."""
    token_flush_seconds: float = 0.03
    slow_seconds: float = 3.0
    """A model that is silent for so long is said to be waited for."""
    validation_retries: int = 3
    pause_at_repeats: bool = True
    """Whether a run that repeats itself is paused until a person lets it continue."""
    send_images: bool = True
    """Whether models are given the pictures of calls and prompts."""
    default_budget: BudgetLimits = field(default_factory=lambda: BudgetLimits(tool_calls=100, steps=100))
    conversation_budget: BudgetLimits = field(default_factory=BudgetLimits)
    """Hard limits of all runs of a conversation together. A notebook may set smaller ones."""


DEFAULTS = RuntimeSettings()
