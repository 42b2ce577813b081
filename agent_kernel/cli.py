"""The command line: `agent-kernel demo | chat | mcp | run | report | record | export | doctor | audit | rules | setup`.

Commands import what they need when they run, so that this module, like the rest of the core, loads without Jupyter.
"""

import argparse
import importlib.util
import os
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from agent_kernel.command_line import NOT_RUN, STDOUT, parser_of_commands
from agent_kernel.errors import AgentKernelError, ConfigurationError

if TYPE_CHECKING:
    from agent_kernel.approvals.user_rules import UserRules
    from agent_kernel.export import Form
    from agent_kernel.protocol.lists import ListedRule


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command. Returns the exit code; argparse exits by itself after a usage error."""
    parser = parser_of_commands()
    options, rest = parser.parse_known_args(arguments)
    if rest and options.command != "demo":
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    try:
        code = _carry_out(options, rest)
        sys.stdout.flush()
    except AgentKernelError as error:
        print(f"agent-kernel: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        return _reader_closed()
    return code


def _carry_out(options: argparse.Namespace, rest: list[str]) -> int:
    match options.command:
        case "demo":
            from agent_kernel.demo import open_demo

            return open_demo(options.directory, rest)
        case "run" | "report":
            return batch(options)
        case "record":
            from agent_kernel.notebook import record_notebook

            return record_notebook.run_command(options)
        case "chat":
            from agent_kernel.terminal import chat_command

            return chat_command.run_command(options)
        case "mcp":
            return mcp(options)
        case "export":
            return _export(options)
        case "audit":
            return _audit(options)
        case "rules":
            return _rules(options)
        case "setup":
            return setup(undo=options.undo, yes=options.yes)
        case _:
            return doctor(ask=not options.offline)


class _CommandError(AgentKernelError):
    """Ends the command with exit code 1; the message gives advice."""


def setup(*, undo: bool, yes: bool) -> int:
    """Write, or with `undo` remove, the file that registers `%%agent` at IPython's start. Returns the exit code.

    The file is shown first, and the user is asked unless `yes` is set.
    """
    from agent_kernel.notebook import startup

    path = startup.startup_file()
    try:
        if startup.is_set_up(path) is not undo:
            print(f"Nothing to do: {path} {'is not there' if undo else 'is there already'}.")
            return 0
        print(f"{'Remove' if undo else 'Write'} {path}:\n\n{startup.CONTENT}")
        if not yes and not _confirmed():
            return 1
        if undo:
            startup.undo(path)
            print("Removed. Kernels that are started from now on want %load_ext agent_kernel again.")
        else:
            startup.set_up(path)
            print("Written. Kernels that are started from now on know %%agent. Undo: agent-kernel setup --undo")
    except (OSError, startup.NotOurs) as error:
        raise _CommandError(str(error)) from None
    return 0


def _confirmed() -> bool:
    if not sys.stdin.isatty():
        print("Nothing was changed. Run it again with --yes.")
        return False
    return input("Go on? [y/N] ").strip().lower() in ("y", "yes")


def batch(options: argparse.Namespace) -> int:
    """Run notebooks without a page, or report on such a batch. Returns the exit status."""
    from agent_kernel.notebook.batch.commands import report_command, run_command

    try:
        if options.command == "report":
            return report_command(options)
        if importlib.util.find_spec("nbclient") is None:
            raise ConfigurationError("nbclient is not installed. Run: pip install nbclient")
        return run_command(options)
    except ConfigurationError as error:
        print(f"agent-kernel: {error}", file=sys.stderr)
        return NOT_RUN
    except OSError as error:
        raise _CommandError(f"The report can't be made: {error}") from None


def mcp(options: argparse.Namespace) -> int:
    """Print a program's configuration, or serve over stdio. Returns the exit code."""
    from agent_kernel.terminal.connection import server_at
    from agent_kernel.terminal.mcp_clients import form_for

    if options.print is None:
        from agent_kernel.terminal import mcp_bridge

        mcp_bridge.serve(options.server, options.token)
        return 0
    text, where = form_for(options.print, server_at(options.server).url, stdio=options.stdio)
    print(where, file=sys.stderr)
    print(text)
    return 0


@contextmanager
def _reading(path: Path | None) -> Iterator[sqlite3.Connection]:
    """Open the log for reading. Raises `_CommandError`, `ConfigurationError`."""
    path = path or _default_log()
    if not path.is_file():
        raise _CommandError(f"There is no log at {path}. Give its path with --log.")
    from agent_kernel.log.file_faults import ADVICE, is_damage
    from agent_kernel.log.opening import open_to_read

    try:
        with closing(open_to_read(path)[0]) as connection:
            yield connection
    except sqlite3.Error as error:
        advice = f". {ADVICE}" if is_damage(error) else ""
        raise _CommandError(f"{path} can't be read as a log of Agent Kernel: {error}{advice}") from error


def _audit(options: argparse.Namespace) -> int:
    if options.check:
        return check_audit(options.log or _default_log())
    with _reading(options.log) as connection:
        try:
            return export_audit(connection, options)
        except ValueError as error:
            raise _CommandError(f"An entry of the audit trail can't be read (--check says which): {error}") from error


def _rules(options: argparse.Namespace) -> int:
    """List or remove saved rules: those in the log and, for the default log, those of kernels without the extension."""
    from agent_kernel.log.saved_rules import all_rules
    from agent_kernel.record.words import rule_words
    from agent_kernel.tools.review.hidden import reveal

    kept = _rules_of_kernels(options.log)
    found = []
    if options.log is not None or _default_log().is_file():
        with _reading(options.log) as connection:
            found = all_rules(connection)
    if options.action == "list":
        for rule in [*found, *kept]:
            place = f" {rule.folder}" if rule.folder is not None else ""
            apart = ", without the server extension" if rule in kept else ""
            print(f"{rule.rule_id}  {reveal(rule.text)}  ({reveal(rule_words(rule) + place + apart)})")
        if not found and not kept:
            print("No rule is saved.")
        return 0
    if not options.rule:
        raise _CommandError("Say which: agent-kernel rules remove ID. agent-kernel rules lists them.")
    named = [rule for rule in [*found, *kept] if rule.rule_id is not None and rule.rule_id.startswith(options.rule)]
    if len(named) != 1:
        raise _CommandError(f"{'Several rules begin' if named else 'No saved rule begins'} with {options.rule!r}.")
    rule_id = named[0].rule_id or ""
    if named[0] in kept:
        _user_rules().remove(rule_id)
    else:
        _remove_rule(options.log or _default_log(), rule_id)
    print(f"Removed: {reveal(named[0].text)}")
    return 0


def _rules_of_kernels(log: Path | None) -> "list[ListedRule]":
    from agent_kernel.protocol.lists import ListedRule

    if log is not None:
        return []
    return [
        ListedRule(
            rule_id=rule.rule_id,
            scope="user",
            tool_name=rule.text.split()[1],
            text=rule.text,
            made_by=rule.made_by,
            made_at=rule.made_at,
        )
        for rule in _user_rules().read()
    ]


def _user_rules() -> "UserRules":
    from agent_kernel.approvals.user_rules import UserRules
    from agent_kernel.notebook.kernel.environment import user_rules_path

    return UserRules(user_rules_path())


def _remove_rule(path: Path, rule_id: str) -> None:
    import asyncio

    from agent_kernel.log.store import Log
    from agent_kernel.runtime.tool_calls import decisions

    async def remove() -> None:
        log = await Log.open(path)
        try:
            await log.write(lambda t: decisions.remove_rule(t.sql, rule_id, None))
        finally:
            await log.aclose()

    asyncio.run(remove())


def _reader_closed() -> int:
    """The reader of the output, such as `head`, has closed the pipe: that is no error."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _export(options: argparse.Namespace) -> int:
    from agent_kernel import export

    form, target = _wanted_form(options)
    if options.run is None and form is not None:
        raise _CommandError("Say which run, before the option: agent-kernel export last --notebook FILE")
    with _reading(options.log) as connection:
        connection.execute("BEGIN")  # one view of the file, even if a server writes to it
        if options.run is None:
            text = export.list_runs(connection) or f"The log has no run. {export.IN_MEMORY}"
        else:
            try:
                text = (form or export.as_markdown)(connection, export.read_run(connection, options.run))
            except ValueError as error:
                raise _CommandError(f"The run can't be read: {error}") from error
    if target != STDOUT:
        return _write(target, text, replace=options.force)
    sys.stdout.buffer.write(f"{text}\n".encode())
    return 0


def _wanted_form(options: argparse.Namespace) -> "tuple[Form | None, Path]":
    from agent_kernel import export

    forms = {"notebook": export.as_notebook, "messages": export.as_messages, "markdown": export.as_markdown}
    for name, form in forms.items():
        if (target := getattr(options, name)) is not None:
            return form, target
    return None, STDOUT


def _write(target: Path, text: str, *, replace: bool) -> int:
    try:
        with target.open("w" if replace else "x", encoding="utf-8") as file:
            file.write(f"{text}\n")
    except FileExistsError:
        raise _CommandError(f"{target} exists. Give another name, or --force to replace it.") from None
    except OSError as error:
        raise _CommandError(f"{target} can't be written: {error.strerror}.") from error
    print(target)
    return 0


def export_audit(connection: sqlite3.Connection, options: argparse.Namespace) -> int:
    """Print the audit entries. Returns the exit code. Raises `ValueError` for an entry that can't be read."""
    from agent_kernel.log.audit import export

    for line in export(connection, conversation_id=options.conversation, since=options.since):
        sys.stdout.buffer.write(line.encode() + b"\n")  # exactly the hashed bytes, whatever the encoding
    sys.stdout.flush()
    return 0


def check_audit(log: Path) -> int:
    """Verify the hash chain of the audit trail, and print the result. Returns the exit code: 1 for a broken trail."""
    from agent_kernel.log.audit import check
    from agent_kernel.log.audit_head import has_trail, head_path, missing, read_note, trail_head

    try:
        note = read_note(log)  # read first: the trail in the log is never older than it
    except ValueError as error:
        raise _CommandError(f"{error}. Whether a trail was lost can't be said. Remove that file to go on.") from error
    if note is not None and not log.is_file():
        head = note.head
        raise _CommandError(
            f"The audit trail is lost: {head.number} entries up to {head.hash}. There is no log at {log}. "
            f"Put it back there from a copy; to begin a new trail, remove {head_path(log)}."
        )
    with _reading(log) as connection:
        connection.execute("BEGIN")  # one view of the file, even if a server writes to it
        lost = [*note.lost] if note is not None else []
        if note is not None and (now := missing(connection, note.head)) is not None:
            lost.append(now)
        head = trail_head(connection)
        fault = check(connection) if has_trail(connection) or not lost else None
    for one in lost:
        print(f"An audit trail is lost: {one} (noticed {one.at}).", file=sys.stderr)
    if lost:
        print(f"Once that is settled, remove {head_path(log)}: it starts again.", file=sys.stderr)
    if fault is not None:
        print(f"Entry {fault.number} does not fit: {fault.why}.", file=sys.stderr)
    if fault is not None or lost:
        return 1
    if not head.number:
        print("The audit trail is empty: nothing has been decided with this log.")
        return 0
    print(f"The audit trail is whole: {head.number} entries, the last one's hash is {head.hash}")
    return 0


def _default_log() -> Path:
    from agent_kernel.doctor import default_log

    return default_log()


def doctor(*, ask: bool = True) -> int:
    """Print all findings. Returns the exit code: 1 if Agent Kernel does not work until something is mended."""
    from agent_kernel.doctor import examine

    findings = examine(os.environ, ask=ask, tell=lambda text: print(f"      {text}", file=sys.stderr))
    for finding in findings:
        print(f"{finding.mark:>4}  {finding.text}")
        if finding.advice:
            print(f"      {finding.advice}")
    return 1 if any(finding.mark == "MEND" for finding in findings) else 0
