"""The one-word commands of `%agent`, such as `status`: functions that return the text to print."""

from collections.abc import Mapping, Sequence

from IPython.core.error import UsageError

from agent_kernel.approvals.folder_file import read_limits
from agent_kernel.notebook.kernel.run_state import RunState
from agent_kernel.notebook.offered_tools import FOLDER
from agent_kernel.protocol.figures import plural
from agent_kernel.protocol.kernel_events import AskRemoveRule, AskUndoRun, WaitingRun
from agent_kernel.protocol.lists import ServersView, ServerView
from agent_kernel.record.as_cells import as_one, code_cells
from agent_kernel.record.words import delayed, name_of, rule_text, rule_words
from agent_kernel.tools.builtin.declarations import BUILTIN_TOOLS
from agent_kernel.tools.review.hidden import reveal

PROMPT_CHARACTERS = 60
MOST_RUNS = 30
NOTHING_OPEN = "No run is open in this kernel."
NO_SERVER = (
    "No MCP server is configured. They are named in mcp.json in Jupyter's configuration directory: "
    '{"mcpServers": {NAME: {"command": ..., "args": [...]}}}'
)
_SERVER_STATES = {
    "ready": "ready",
    "starting": "starts; later prompts have its tools",
    "sign in": "wants you to sign in",
    "down": "down, tried again",
}
SHOWN_TOOLS = 100
"""How many tools of one server are printed."""


def status(runs: Sequence[RunState], waiting: Mapping[str, WaitingRun]) -> str:
    """`waiting`: the calls that wait for a person, by run."""
    if not runs:
        return NOTHING_OPEN
    lines = [f"  {standing(run, waiting.get(run.run_id))}: {_prompt(run)}" for run in runs]
    return "\n".join([*lines, "", "%agent show brings the cards here. %agent stop stops what is open."])


def standing(run: RunState, waiting: WaitingRun | None) -> str:
    """For example `Waiting for you (Run Python) in penguins.ipynb`."""
    place = f" in {reveal(waiting.notebook)}" if waiting is not None and waiting.notebook is not None else ""
    return f"{_standing(run, waiting.tool_names if waiting is not None else ())}{place}"


def _standing(run: RunState, tool_names: Sequence[str]) -> str:
    view = run.view
    if tool_names:
        return f"Waiting for you ({', '.join(dict.fromkeys(map(name_of, tool_names)))})"
    if view is not None and view.paused is not None:
        return f"Waiting for you ({'repeats itself' if view.paused.repeated else 'budget reached'})"
    if view is not None and view.delay is not None:
        return delayed(view.delay)
    return "Queued" if view is not None and view.status == "queued" else "Running"


def stop(runs: Sequence[RunState]) -> str:
    for run in runs:
        run.cancel("script")
    return "\n".join(f"Stopped: {_prompt(run)}" for run in runs) or NOTHING_OPEN


def show(runs: Sequence[RunState]) -> str:
    """Show the cards of runs in this cell. Returns a message for those that have none."""
    if not runs:
        return NOTHING_OPEN
    hidden = [run for run in runs if not run.host.show_here(run)]
    return "\n".join(f"No page shows cards of this run: {_prompt(run)}" for run in hidden)


def limits() -> list[str]:
    """The limits in the files of the notebook's folder, as sentences."""
    found = read_limits(FOLDER)
    said = found.words()
    return [reveal(line) for line in ([f"Runs here are limited by {said}."] if said else []) + list(found.notes)]


def rules(run: RunState | None) -> str:
    """The policy of a run, and each rule in force with its author. Saved rules have a number, for `remove_rule`."""
    if run is None or run.view is None:
        return "No agent has run in this kernel yet. A run asks before it acts, unless its policy says otherwise."
    policy = run.view.policy
    lines = [f"Policy of the last run: {policy.mode}."]
    if policy.limited_by is not None:
        lines.append(f"Limited by {reveal(policy.limited_by)}.")
    lines += [reveal(note) for note in policy.notes]
    if not policy.rules:
        return "\n".join([*lines, "No rule is in force."])
    saved = 0
    for rule in policy.rules:
        saved += rule.rule_id is not None
        number = f"{saved}" if rule.rule_id is not None else "-"
        lines.append(f"  {number:>2}  {reveal(rule_text(rule.text))} ({reveal(rule_words(rule))})")
    return "\n".join([*lines, *(["%agent rules remove N takes a saved one out of force."] if saved else [])])


def remove_rule(run: RunState | None, number: str) -> str:
    """Raises `UsageError` for a number that no saved rule has, `AgentKernelError`."""
    saved = [rule for rule in run.view.policy.rules if rule.rule_id is not None] if run and run.view else []
    if run is None or not number.isascii() or not number.isdigit() or not 1 <= int(number) <= len(saved):
        raise UsageError(f"There is no saved rule {number}. %agent rules lists them.")
    rule = saved[int(number) - 1]
    assert rule.rule_id is not None
    run.host.ask(AskRemoveRule(conversation_id=run.conversation_id, rule_id=rule.rule_id))
    return f"Removed: {reveal(rule_text(rule.text))}. Calls that it allowed ask again, in runs that are under way too."


def undo(run: RunState | None, *, redo: bool = False) -> str:
    """Undo what the last run has changed in files and cells, or do it again. Raises `AgentKernelError`."""
    changes = run.host.ask(AskUndoRun(run_id=run.run_id, redo=redo)).changes if run is not None else ()
    if not changes:
        return f"There is nothing to {'redo' if redo else 'undo'}: the last run has changed no file and no cell."
    now = "as the run left it" if redo else "undone"
    done = [f"  {reveal(one.path)} ({one.tool_name}): {one.refusal or now}" for one in changes]
    return "\n".join([*done, "What the kernel computed stays as it is."])


def history(runs: Sequence[RunState]) -> str:
    if not runs:
        return "No agent has run in this kernel yet."
    left_out = [f"  and {len(runs) - MOST_RUNS} earlier ones"] if len(runs) > MOST_RUNS else []
    return "\n".join([*left_out, *(f"  {run.status}: {_prompt(run)}" for run in runs[-MOST_RUNS:])])


def code(run: RunState | None) -> str | None:
    """The code of a run, as one cell; `None` where there is none."""
    if run is None or run.end is None:
        return None
    return as_one(code_cells(run.end.messages, run.end.tool_calls)) or None


def without_code(run: RunState | None) -> str:
    """Why `code` returned none."""
    if run is None:
        return "No agent has run in this kernel yet."
    if not run.done:
        return f"The last run goes on; its code is here when it has ended: {_prompt(run)}"
    return f"The last run has run no code that a cell can repeat: {_prompt(run)}"


def tools(found: ServersView) -> str:
    """The tools that a prompt has: built-in ones and those of MCP servers, with the servers' states."""
    parts = [f"Built in: {', '.join(tool.name for tool in BUILTIN_TOOLS)}"]
    parts += [_server(server, found) for server in found.servers]
    parts += [reveal(fault) for fault in found.faults]
    if not found.servers and not found.faults:
        parts.append(NO_SERVER)
    return "\n\n".join(parts)


def _server(server: ServerView, found: ServersView) -> str:
    whose = {"user": "yours", "site": "the site's", "folder": "this folder's"}[server.whose]
    head = f"{reveal(server.name)} ({whose}): {_SERVER_STATES[server.state]}"
    cost = f", {plural(server.tools, 'tool')}, about {server.tokens:,} tokens of each request" if server.tools else ""
    lines = [head + cost, *([f"  {reveal(server.error)}"] if server.error else [])]
    names = [tool.name for tool in found.tools if tool.server == server.name]
    lines += [f"  {name}" for name in names[:SHOWN_TOOLS]]
    if len(names) > SHOWN_TOOLS:
        lines.append(f"  and {len(names) - SHOWN_TOOLS} more")
    return "\n".join([*lines, *(f"  {reveal(note)}" for note in server.notes)])


def _prompt(run: RunState) -> str:
    line = reveal(" ".join(run.prompt.split()))
    return line if len(line) <= PROMPT_CHARACTERS else f"{line[: PROMPT_CHARACTERS - 1]}…"
