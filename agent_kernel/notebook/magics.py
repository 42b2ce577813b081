"""The magics `%%agent` and `%agent`."""

import ast
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, line_cell_magic, magics_class, no_var_expand
from IPython.display import display

from agent_kernel.errors import AgentKernelError, ConfigurationError
from agent_kernel.notebook import completion, magic_commands
from agent_kernel.notebook.agent import Agent, last_run, wait_or_cancel
from agent_kernel.notebook.config import Defaults, value_of, words_of
from agent_kernel.notebook.hosts.discovery import host_for, look_for_server
from agent_kernel.notebook.kernel.requests import install
from agent_kernel.notebook.kernel.state import kernel_state
from agent_kernel.notebook.model_list import LIST_SECONDS, model_list, table
from agent_kernel.notebook.offered_tools import named_tools
from agent_kernel.notebook.run import state_of
from agent_kernel.notebook.stats import stats_bundle
from agent_kernel.protocol.ids import new_conversation_id
from agent_kernel.protocol.kernel_events import AskMetrics, AskServers, AskUsage, AskWaitingRuns, WaitingRun
from agent_kernel.protocol.vocabulary import Effort, OnChange, PolicyMode

NOT_FIRST = (
    "%%agent has to be the first line of its cell: nothing stands above it, no comment either. "
    "Put what is above it into a cell of its own."
)
HELP = """\
%%agent [options]           the prompt is the cell's text, in Markdown
%agent [options] PROMPT     the same in one line
%agent stats                what was spent in the last 30 days, and how calls ended
%agent models               the models that there are, and what they take
%agent tools                the tools that there are, those of MCP servers with their servers' states
%agent status               the runs that are open, and what they wait for
%agent show                 their cards, live, in this cell
%agent stop                 stop them
%agent new                  the next prompt begins a new conversation
%agent config NAME=VALUE    defaults of this kernel's prompts: model, policy, wait, effort, tools
%agent rules                the policy and every rule in force, with who made it
%agent rules remove N       take a saved rule out of force
%agent undo                 put back the files and cells that the last run changed
%agent redo                 undo that
%agent code                 the code of the last run, in the next cell
%agent history              what was asked in this kernel
%agent help                 this; so do %%agent without a prompt, and --help

  --model M       a model's name, replay:FILE, or demo (recorded, needs no key)
  --wait          hold the cell until the run has ended (--wait=false: not, where that is the default)
  --effort E      low, medium or high: how much the model reasons, where it has a choice
  --policy P      ask (default), edit (files here unasked), allow, deny, or plan (only reads)
  --tools A,B     your own functions by name, or the built-in tools to offer; github.* names an MCP server's
  --record FILE   record the model's answers to FILE.jsonl, for --model replay:FILE.jsonl
  --on-change C   with replay: strict (default) stops the run where the recording no longer fits, warn goes on
  --new           begin a new conversation; else each prompt continues the last one
  --allow-failure a failed run does not fail its cell where the notebook runs without a page (papermill, nbconvert)

The last run is agent_kernel.last_run(); all of this kernel are agent_kernel.runs()."""


NO_DEFAULTS: Mapping[str, Any] = MappingProxyType({})
_NEAR = 0.75
"""How alike a command and its misspelling are; `hello` and `help` are less."""
_MAGIC = re.compile(r"%%agent(?!\S)")
_QUESTION = re.compile(r"%agent\s+(\S.*\?)\s*")
_REMOVE = re.compile(r"rules\s+remove\s+(\S+)")


@dataclass(frozen=True, slots=True)
class Options:
    """What a prompt's line says, and its prompt."""

    model: str | None = None
    wait: bool = False
    policy: PolicyMode | None = None
    tools: tuple[str, ...] = ()
    new: bool = False
    effort: Effort | None = None
    record: str | None = None
    on_change: OnChange | None = None
    allow_failure: bool = False
    prompt: str = ""


@magics_class
class AgentMagics(Magics):
    """The magics of one kernel, with its default conversation."""

    def __init__(self, shell: InteractiveShell) -> None:
        super().__init__(shell)
        self._conversation_id = new_conversation_id()
        self._defaults = Defaults(self._named_tools)

    def take_defaults_of_page(self, defaults: Mapping[str, str]) -> None:
        """Take the settings of the page that runs the next prompt."""
        self._defaults.take_page(defaults)

    def _named_tools(self, names: tuple[str, ...]) -> Any:
        shell: Any = self.shell
        return named_tools(names, shell.user_ns)

    @no_var_expand
    @line_cell_magic
    def agent(self, line: str, cell: str | None = None) -> None:
        """Ask an agent that works in this notebook. `%agent` alone shows how."""
        command = line.strip()
        try:
            if command in ("--help", "-h") or (command in ("", "help") and not (cell or "").strip()):
                said: str | None = self._help()
            else:
                said = self._said(command) if cell is None else None
            if said is None:
                self._start(parse(line, self._defaults.in_force), cell)
            elif said:
                sys.stdout.write(f"{said}\n")
        except AgentKernelError as error:
            raise UsageError(str(error)) from None

    def _help(self) -> str:
        run, defaults = last_run(), self._defaults.line()
        said = "No agent has run in this kernel yet." if run is None else f"The last run: {run!r}"
        return "\n".join([said, *([f"Defaults (%agent config): {defaults}"] if defaults else []), "", HELP])

    def _said(self, line: str) -> str | None:
        """What a command says; `None` for a line that is a prompt."""
        if (words := words_of(line)) is not None:
            defaults = self._defaults.change(words) if words else self._defaults.text()
            return "\n".join([defaults, *magic_commands.limits()])
        if (found := _REMOVE.fullmatch(line)) is not None:
            return magic_commands.remove_rule(kernel_state().last_run, found[1])
        commands = self._commands()
        if line in commands:
            return commands[line]()
        if (meant := _near(line, [*commands, "help"])) is not None:
            raise UsageError(
                f"There is no command {line!r}. Did you mean %agent {meant}? To ask the agent, use %%agent."
            )
        return None

    def _commands(self) -> dict[str, Callable[[], str]]:
        """The commands: a word that is alone in its line. A prompt may begin with such a word."""
        state = kernel_state()
        return {
            "models": self._list_models,
            "tools": lambda: magic_commands.tools(host_for(state, None).ask(AskServers())),
            "status": lambda: magic_commands.status(state.open_runs(), self._waiting_runs()),
            "show": lambda: magic_commands.show(state.open_runs()),
            "stop": lambda: magic_commands.stop(state.open_runs()),
            "new": self._begin_conversation,
            "rules": lambda: magic_commands.rules(state.last_run),
            "undo": lambda: magic_commands.undo(state.last_run),
            "redo": lambda: magic_commands.undo(state.last_run, redo=True),
            "code": self._fill_next_input,
            "history": lambda: magic_commands.history(state.runs()),
            "stats": self._show_stats,
        }

    def _waiting_runs(self) -> dict[str, WaitingRun]:
        hosts = {run.host for run in kernel_state().open_runs()}
        return {run.run_id: run for host in hosts for run in host.ask(AskWaitingRuns()).runs}

    def _begin_conversation(self) -> str:
        self._conversation_id = new_conversation_id()
        return "The next prompt begins a new conversation."

    def _fill_next_input(self) -> str:
        run = kernel_state().last_run
        code = magic_commands.code(run)
        if code is None:
            return magic_commands.without_code(run)
        shell: Any = self.shell
        shell.set_next_input(code)
        return ""

    def _show_stats(self) -> str:
        run = last_run()
        host = host_for(kernel_state(), None)
        usage, metrics = host.ask(AskUsage()), host.ask(AskMetrics())
        here = run.conversation_id if run is not None else self._conversation_id
        display(stats_bundle(usage, metrics, here), raw=True)
        return ""

    def _list_models(self) -> str:
        models = model_list().wait(LIST_SECONDS)
        if models is None:
            raise UsageError(f"The list of models did not come within {LIST_SECONDS:g} s. Try again in a moment.")
        return table(models)

    def _start(self, options: Options, cell: str | None) -> None:
        prompt = "\n".join(part for part in (options.prompt, cell) if part)
        if not prompt.strip():
            raise UsageError("The prompt is empty. Write below %%agent what the agent should do.")
        if options.new:
            self._conversation_id = new_conversation_id()
        agent = Agent(
            model=recorded_model(options.model, options.record, options.on_change),
            tools=self._named_tools(options.tools),
            policy=options.policy,
            effort=options.effort,
        )
        agent.conversation_id = self._conversation_id
        try:
            run = agent.start(prompt.strip("\n"))
        finally:
            self._conversation_id = agent.conversation_id
        state_of(run).failure_handled = options.allow_failure
        if options.wait or state_of(run).host.blocks:
            wait_or_cancel(run)
        elif cell is not None:
            kernel_state().interrupts.prompt_was_asked()


def _near(line: str, commands: Iterable[str]) -> str | None:
    """The command that a line of as many words is a misspelling of."""
    alike = [command for command in commands if len(command.split()) == len(line.split())]
    return next(iter(get_close_matches(line, alike, 1, _NEAR)), None)


def parse(line: str, defaults: Mapping[str, Any] = NO_DEFAULTS) -> Options:
    """Split a line into options and the prompt that follows them, verbatim. Raises `UsageError`."""
    found: dict[str, Any] = {}
    rest = line.strip()
    while rest.startswith("--"):
        word, _, rest = rest.partition(" ")
        name, equals, value = word.removeprefix("--").partition("=")
        rest = rest.lstrip()
        if not name:
            break
        if name == "wait" and equals:
            found[name] = value_of(name, value)
            continue
        if name in ("wait", "new", "allow-failure"):
            if equals:
                raise UsageError(f"--{name} takes no value.")
            found[name.replace("-", "_")] = True
            continue
        if name not in ("model", "policy", "tools", "effort", "record", "on-change"):
            raise UsageError(f"There is no option --{name}.\n\n{HELP}")
        if not equals:
            value, _, rest = rest.partition(" ")
            rest = rest.lstrip()
        found[name.replace("-", "_")] = _value(name, value)
    return Options(**{**defaults, **found}, prompt=rest)


def _value(name: str, text: str) -> Any:
    value = "".join(shlex.split(text)) if text[:1] in ("'", '"') else text
    if not value or value.startswith("--"):
        raise UsageError(f"--{name} wants a value.")
    return value_of(name, value)


def recorded_model(model: str | None, record: str | None, on_change: OnChange | None) -> str | None:
    """The name of the model that `--model`, `--record` and `--on-change` mean together. Raises `ConfigurationError`."""
    replays = model is not None and model.startswith("replay:")
    if record is not None and (replays or on_change is not None or (model or "").startswith("record:")):
        raise ConfigurationError(
            "--record records what a model answers, and --model replay: plays a recording: leave out one of them."
        )
    if record is not None:
        return f"record:{record}" if model is None else f"record:{record} --model {model}"
    if on_change is None:
        return model
    if not replays:
        raise ConfigurationError("--on-change goes with a recording: --model replay:FILE.jsonl --on-change warn.")
    return f"{model} --on-change {on_change}"


def _with_body(lines: list[str]) -> list[str]:
    """IPython refuses a cell of a magic alone, and asks whether another one was meant."""
    return [*lines, "\n"] if len(lines) == 1 and _MAGIC.match(lines[0]) else lines


def _question(lines: list[str]) -> list[str]:
    """IPython takes a line that ends in `?` for a question about a Python name."""
    if len(lines) == 1 and (found := _QUESTION.fullmatch(lines[0])) is not None:
        return [f"get_ipython().run_line_magic('agent', {found[1]!r})\n"]
    return lines


def _prompt_first(lines: list[str]) -> list[str]:
    """IPython would not know the magic below other code. In a text, where it is no magic, the cell is Python."""
    if not lines[:1] or lines[0].startswith("%%") or not any(map(_MAGIC.match, lines)):
        return lines
    try:
        ast.parse("".join(lines))
    except SyntaxError:
        raise UsageError(NOT_FIRST) from None
    return lines


_prompt_first.has_side_effects = True  # type: ignore[attr-defined]  # a cell that is being written is not refused
_TRANSFORMS = (_with_body, _question, _prompt_first)


def load(shell: InteractiveShell) -> None:
    install()
    look_for_server(kernel_state())
    shell.register_magics(AgentMagics)
    _unload_transforms(shell)
    shell.input_transformers_cleanup.extend(_TRANSFORMS)
    completion.load(shell)


def unload(shell: InteractiveShell) -> None:
    for magics in shell.magics_manager.magics.values():
        magics.pop("agent", None)
    _unload_transforms(shell)
    completion.unload(shell)


def _unload_transforms(shell: InteractiveShell) -> None:
    found = shell.input_transformers_cleanup
    found[:] = [one for one in found if one not in _TRANSFORMS]
