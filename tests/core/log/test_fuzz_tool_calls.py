"""The state machine of tool calls against a model of it: whatever people, policy, crashes and late callers do, in any
order, nothing runs undecided, twice or with other arguments, and the audit trail says exactly what happened."""

import sqlite3
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from agent_kernel.errors import AgentKernelError, AlreadyDecided, DigestMismatch, IllegalTransition
from agent_kernel.log import audit, runs, tool_calls
from agent_kernel.log.tables import make_tables
from agent_kernel.protocol.vocabulary import CallState
from agent_kernel.tools.arguments import canonical, digest
from tests.core.runtime.turns.fuzzing import rounds

CODES = st.text(max_size=6).map(lambda code: canonical({"code": code}))
ENDS: Any = st.sampled_from(["success", "error", "cancelled", "unknown"])
WITHDRAWALS: Any = st.sampled_from(["cancelled", "superseded", "expired", "invalid"])


class _Crash(Exception):
    """The process ends before the commit."""


@dataclass
class Call:
    """What must be true of one call."""

    name: str
    conversation: int
    tool_input: str
    state: CallState = "proposed"
    decided: str | None = None
    approved_digest: str | None = None
    started: int = 0

    @property
    def ended(self) -> bool:
        return not tool_calls.NEXT[self.state]


class ToolCalls(RuleBasedStateMachine):
    calls = Bundle("calls")

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        self._path = Path(self._folder.name) / "log.sqlite"
        self._known: dict[str, Call] = {}
        self._deleted: list[Call] = []
        self._noted: list[str] = []
        self._numbers: dict[str, int] = {}
        self._open()
        make_tables(self._sql)
        for name in ("conv_1", "conv_2"):
            row = self._write(lambda sql, name=name: runs.add_conversation(sql, name, None, None, None))
            self._numbers[name] = row.number

    def _open(self) -> None:
        self._sql = sqlite3.connect(self._path, isolation_level=None)
        self._sql.execute("PRAGMA foreign_keys = ON")
        self._sql.execute("PRAGMA synchronous = OFF")  # the process dies here, not the machine

    def _write(self, work: Any, *, crash: bool = False) -> Any:
        self._sql.execute("BEGIN IMMEDIATE")
        try:
            result = work(self._sql)
            if crash:
                raise _Crash
            self._sql.execute("COMMIT")
        except BaseException:
            self._sql.execute("ROLLBACK")
            raise
        return result

    @initialize(target=calls)
    def begin_with_two_calls(self) -> Any:
        return multiple(*(self._propose("{}", conversation) for conversation in ("conv_1", "conv_2")))

    @rule(target=calls, tool_input=CODES, conversation=st.sampled_from(["conv_1", "conv_2"]))
    def propose(self, tool_input: str, conversation: str) -> str:
        return self._propose(tool_input, conversation)

    def _propose(self, tool_input: str, conversation: str) -> str:
        name = f"c{len(self._known) + len(self._deleted)}"
        proposal = tool_calls.Proposal(
            name, f"apr_{name}", "run", "run_python", tool_input, digest(tool_input), read_only=False, recorded=False
        )
        number = self._numbers[conversation]
        self._write(lambda sql: tool_calls.propose(sql, number, proposal))
        self._known[name] = Call(name, number, tool_input)
        return name

    @rule(name=calls, state=st.just("awaiting_approval") | WITHDRAWALS | ENDS)
    def move(self, name: str, state: Any) -> None:
        self._move(name, state)

    def _move(self, name: str, target: CallState) -> None:
        call = self._known.get(name)
        if call is None:
            return
        allowed = target in tool_calls.NEXT[call.state]
        try:
            self._write(lambda sql: tool_calls.move(sql, call.conversation, name, target, []))
        except IllegalTransition:
            assert not allowed
        else:
            assert allowed
            call.state = target

    @rule(
        name=calls,
        approved=st.booleans(),
        by=st.sampled_from(["user", "policy", "script"]),
        scope=st.sampled_from(["once", "conversation", "user"]),
        edited=st.none() | CODES,
        saw=st.sampled_from(["nothing", "the call", "another"]),
        crash=st.booleans(),
    )
    def decide(self, name: str, approved: bool, by: Any, scope: Any, edited: str | None, saw: str, crash: bool) -> None:
        call = self._known.get(name)
        if call is None:
            return
        edit = None if edited is None or not approved else tool_calls.Edit(edited, digest(edited))
        verdict = tool_calls.Verdict(approved, by, decided_by="ana", scope=scope, edit=edit)
        seen = {"nothing": None, "the call": digest(call.tool_input), "another": "0" * 64}[saw]
        undecided = call.state in ("proposed", "awaiting_approval")
        try:
            self._write(
                lambda sql: tool_calls.commit_decision(sql, f"apr_{name}", verdict, [], denial="", seen_digest=seen),
                crash=crash,
            )
        except AlreadyDecided as late:
            assert not undecided
            first = late.first
            assert first["state"] == call.state
        except DigestMismatch:
            assert undecided
            assert saw == "another"
        except _Crash:
            assert undecided
        else:
            assert undecided
            assert saw != "another"
            assert call.decided is None
            call.decided = "approved" if approved else "denied"
            call.state = "approved" if approved else "denied"
            call.tool_input = edited if edit is not None and edited is not None else call.tool_input
            call.approved_digest = digest(call.tool_input) if approved else None

    @rule(name=calls, other=st.none() | CODES, crash=st.booleans())
    def begin(self, name: str, other: str | None, crash: bool) -> None:
        """Somebody is about to run the call, with these arguments."""
        call = self._known.get(name)
        if call is None:
            return
        wanted = digest(other if other is not None else call.tool_input)
        try:
            self._write(lambda sql: tool_calls.begin(sql, call.conversation, name, wanted), crash=crash)
        except DigestMismatch:
            assert wanted != digest(call.tool_input)
        except IllegalTransition:
            assert call.state != "approved"
        except _Crash:
            return
        else:
            assert wanted == call.approved_digest
            call.state = "executing"
            call.started += 1

    @rule()
    def crash_and_recover(self) -> None:
        """The process is killed in the middle of a transaction. What was running is unknown from then on."""
        self._sql.execute("BEGIN IMMEDIATE")
        with suppress(AgentKernelError):
            for call in self._known.values():
                tool_calls.commit_decision(
                    self._sql, f"apr_{call.name}", tool_calls.Verdict(True, "user"), [], denial=""
                )
        self._sql.close()
        self._open()
        for call in tool_calls.list_calls(self._sql, state="executing"):
            self._move(call.tool_call_id, "unknown")

    @rule(name=consumes(calls))
    def delete_the_conversation(self, name: str) -> None:
        call = self._known.get(name)
        if call is None or len(self._known) < 4:
            return
        conversation = next(name for name, number in self._numbers.items() if number == call.conversation)
        self._write(lambda sql: runs.delete_conversation(sql, conversation))
        gone = [one for one in self._known.values() if one.conversation == call.conversation]
        self._deleted += gone
        for one in gone:
            del self._known[one.name]
        number = self._write(lambda sql: runs.add_conversation(sql, conversation, None, None, None)).number
        assert number not in self._numbers.values()
        self._numbers[conversation] = number

    @invariant()
    def the_log_says_what_happened(self) -> None:
        for call in self._known.values():
            logged = tool_calls.read_call(self._sql, call.conversation, call.name)
            assert (logged.state, logged.tool_input) == (call.state, call.tool_input)
            assert logged.digest == digest(logged.tool_input)
            assert call.started <= 1
            assert call.started == 0 or call.decided == "approved"
            assert (logged.started_at is not None) == (call.started == 1)

    @invariant()
    def the_audit_trail_is_whole(self) -> None:
        assert audit.check(self._sql) is None
        entries = list(audit.read_entries(self._sql))
        hashes = [entry.hash for entry in entries]
        assert hashes[: len(self._noted)] == self._noted  # nothing that was there has changed
        self._noted = hashes
        for call in (*self._known.values(), *self._deleted):
            told = [entry.fields for entry in entries if entry.fields["approval_id"] == f"apr_{call.name}"]
            decisions = [one["decision"] for one in told if one["kind"] == "decision"]
            outcomes = [one["state"] for one in told if one["kind"] == "outcome"]
            assert decisions == ([call.decided] if call.decided else [])
            assert outcomes == ([call.state] if call.ended else [])
            arguments = [one["arguments"] for one in told if "arguments" in one]
            assert len(arguments) == bool(told)  # one entry has them, the others refer to it
            assert all(one["digest"] == digest(arguments[0]) for one in told if "digest" in one)

    def teardown(self) -> None:
        self._sql.close()
        self._folder.cleanup()


TestToolCalls = ToolCalls.TestCase
TestToolCalls.settings = rounds(15, 500, stateful_step_count=40)
