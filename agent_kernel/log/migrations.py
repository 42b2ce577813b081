"""The schema, as a list of migrations. A released entry is never edited; a change is a new entry.

What the comments call `blocks` and `bodies` is in `old_packing` today, rows of several events are in `events`.
"""

import sqlite3
from collections.abc import Iterator

from agent_kernel.errors import ConfigurationError

MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE conversations (
        -- Never given out again: what is remembered of a deleted conversation must not become another's.
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        conversation_id TEXT NOT NULL UNIQUE,
        kernel_id TEXT,
        model TEXT,
        notebook_path TEXT,
        created_at TEXT NOT NULL
    );
    CREATE TABLE tool_sets (
        digest TEXT PRIMARY KEY,
        tools TEXT NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE runs (
        number INTEGER PRIMARY KEY,
        run_id TEXT NOT NULL UNIQUE,
        conversation INTEGER NOT NULL REFERENCES conversations (number) ON DELETE CASCADE,
        widget_model_id TEXT UNIQUE,
        status TEXT NOT NULL,
        view BLOB NOT NULL,
        spec TEXT NOT NULL,
        tool_set TEXT NOT NULL REFERENCES tool_sets (digest),
        owner TEXT NOT NULL
    );
    CREATE INDEX runs_by_conversation ON runs (conversation, number);
    CREATE INDEX runs_by_status ON runs (status);
    CREATE TABLE messages (
        conversation INTEGER NOT NULL REFERENCES conversations (number) ON DELETE CASCADE,
        position INTEGER NOT NULL,
        message_id TEXT NOT NULL,
        run_id TEXT NOT NULL,
        body BLOB NOT NULL,
        PRIMARY KEY (conversation, position)
    );
    CREATE TABLE inbox (
        number INTEGER PRIMARY KEY,
        conversation INTEGER NOT NULL REFERENCES conversations (number) ON DELETE CASCADE,
        run_id TEXT NOT NULL,
        content TEXT NOT NULL
    );
    CREATE TABLE events (
        conversation INTEGER NOT NULL REFERENCES conversations (number) ON DELETE CASCADE,
        seq INTEGER NOT NULL,
        kind TEXT NOT NULL,
        body BLOB NOT NULL,
        PRIMARY KEY (conversation, seq)
    );
    CREATE TABLE tool_calls (
        number INTEGER PRIMARY KEY,
        conversation INTEGER NOT NULL REFERENCES conversations (number) ON DELETE CASCADE,
        tool_call_id TEXT NOT NULL,
        approval_id TEXT NOT NULL UNIQUE,
        run_id TEXT NOT NULL,
        tool_name TEXT NOT NULL,
        tool_input TEXT NOT NULL,
        digest TEXT NOT NULL,
        state TEXT NOT NULL,
        reason TEXT,
        decided_via TEXT,
        decided_by TEXT,
        edited INTEGER NOT NULL DEFAULT 0,
        read_only INTEGER NOT NULL,
        recorded INTEGER NOT NULL,
        warnings TEXT NOT NULL,
        preview TEXT,
        created_at TEXT NOT NULL,
        decided_at TEXT,
        started_at TEXT,
        ended_at TEXT,
        duration_ms INTEGER,
        result TEXT,
        truncated INTEGER NOT NULL DEFAULT 0,
        output_file TEXT,
        UNIQUE (conversation, tool_call_id)
    );
    CREATE INDEX tool_calls_by_state ON tool_calls (state);
    CREATE TABLE audit (
        number INTEGER PRIMARY KEY,
        entry TEXT NOT NULL,
        hash TEXT NOT NULL
    );
    CREATE TABLE audit_head (
        number INTEGER NOT NULL,
        hash TEXT NOT NULL
    );
    INSERT INTO audit_head VALUES (0, '0000000000000000000000000000000000000000000000000000000000000000');
    CREATE TRIGGER audit_in_order BEFORE INSERT ON audit
    WHEN NEW.number IS NOT (SELECT number + 1 FROM audit_head)
    BEGIN SELECT RAISE(ABORT, 'the audit trail only grows at its end'); END;
    CREATE TRIGGER audit_grows AFTER INSERT ON audit
    BEGIN UPDATE audit_head SET number = NEW.number, hash = NEW.hash; END;
    CREATE TRIGGER audit_never_changes BEFORE UPDATE ON audit
    BEGIN SELECT RAISE(ABORT, 'the audit trail only grows at its end'); END;
    CREATE TRIGGER audit_never_shrinks BEFORE DELETE ON audit
    BEGIN SELECT RAISE(ABORT, 'the audit trail only grows at its end'); END;
    CREATE TRIGGER audit_head_follows BEFORE UPDATE ON audit_head
    WHEN NEW.number IS NOT OLD.number + 1
        OR NOT EXISTS (SELECT 1 FROM audit WHERE audit.number = NEW.number AND audit.hash = NEW.hash)
    BEGIN SELECT RAISE(ABORT, 'the audit trail only grows at its end'); END;
    CREATE TRIGGER audit_head_stays BEFORE DELETE ON audit_head
    BEGIN SELECT RAISE(ABORT, 'the audit trail only grows at its end'); END;
    CREATE TRIGGER audit_head_is_one BEFORE INSERT ON audit_head
    BEGIN SELECT RAISE(ABORT, 'the audit trail only grows at its end'); END;
    CREATE TABLE rules (
        rule_id TEXT PRIMARY KEY,
        scope TEXT NOT NULL,
        scope_key TEXT NOT NULL,
        text TEXT NOT NULL,
        created_at TEXT NOT NULL,
        revoked_at TEXT
    );
    """,
    """
    -- The tables stay; rows of other forms may stand in them, and those of schema 1 stay as they are. `events` has
    -- blocks (see `blocks`), `messages.body` may be the number of the tool call whose result it says, `audit.entry` is
    -- compressed and `audit.hash` bytes. There are bodies of formats 2 and 3 (see `bodies`).
    """,
    """
    ALTER TABLE tool_calls ADD COLUMN undo TEXT;
    ALTER TABLE tool_calls ADD COLUMN undone INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE tool_calls ADD COLUMN waiting_behind INTEGER;
    ALTER TABLE tool_calls ADD COLUMN unknown_answer TEXT;
    """,
    """
    DROP INDEX runs_by_status;
    CREATE INDEX runs_open ON runs (conversation) WHERE status IN ('queued', 'running');
    """,
    """
    -- An index of all states was written at each step of each call; only these two are looked for.
    DROP INDEX tool_calls_by_state;
    CREATE INDEX tool_calls_waiting ON tool_calls (number) WHERE state = 'awaiting_approval';
    CREATE INDEX tool_calls_unknown ON tool_calls (conversation, digest) WHERE state = 'unknown';
    """,
    """
    -- What a run has spent since its view was written. `events` has rows of several events (see `blocks`).
    ALTER TABLE runs ADD COLUMN usage TEXT;
    """,
    """
    -- Pictures that models are given, each once however often it was shown. Those of a conversation that is deleted go
    -- with it, unless another has them as well.
    CREATE TABLE images (
        digest TEXT NOT NULL UNIQUE,
        data BLOB NOT NULL
    );
    CREATE TABLE images_of_conversations (
        conversation INTEGER NOT NULL REFERENCES conversations (number) ON DELETE CASCADE,
        digest TEXT NOT NULL REFERENCES images (digest),
        PRIMARY KEY (conversation, digest)
    ) WITHOUT ROWID;
    CREATE INDEX conversations_of_images ON images_of_conversations (digest);
    CREATE TRIGGER images_go AFTER DELETE ON images_of_conversations
    WHEN NOT EXISTS (SELECT 1 FROM images_of_conversations WHERE digest = OLD.digest)
    BEGIN DELETE FROM images WHERE digest = OLD.digest; END;
    -- What a call showed, as the messages have it, and how many of them a model was given.
    ALTER TABLE tool_calls ADD COLUMN images TEXT;
    ALTER TABLE tool_calls ADD COLUMN seen_images INTEGER NOT NULL DEFAULT 0;
    """,
    """
    -- What is left out of requests of a long conversation (see `compactions`).
    CREATE TABLE compactions (
        number INTEGER PRIMARY KEY,
        conversation INTEGER NOT NULL REFERENCES conversations (number) ON DELETE CASCADE,
        body BLOB NOT NULL
    );
    CREATE INDEX compactions_by_conversation ON compactions (conversation, number);
    """,
    """
    -- What each turn of a model took. A row outlives its conversation, for the totals; it holds no word of it.
    CREATE TABLE turns (
        number INTEGER PRIMARY KEY,
        conversation INTEGER REFERENCES conversations (number) ON DELETE SET NULL,
        at INTEGER NOT NULL, -- seconds since 1970, UTC
        model TEXT NOT NULL,
        host TEXT NOT NULL,
        input_tokens INTEGER NOT NULL,
        cached_tokens INTEGER NOT NULL,
        cache_write_tokens INTEGER NOT NULL,
        output_tokens INTEGER NOT NULL,
        reasoning_tokens INTEGER NOT NULL,
        cost INTEGER, -- in 10^-12 US dollars
        partial INTEGER NOT NULL -- whether it cost more than that
    );
    """,
    """
    -- The policy that a person has chosen for a conversation while it went on.
    ALTER TABLE conversations ADD COLUMN policy TEXT;
    """,
    """
    -- Who saved a rule, where a person is known by name.
    ALTER TABLE rules ADD COLUMN made_by TEXT;
    """,
    """
    -- Where the path of a file tool's call leads (`Place`, as JSON): what it was judged by, and may open.
    ALTER TABLE tool_calls ADD COLUMN place TEXT;
    """,
    """
    -- Long texts are compressed with zlib, each by itself (see `packing`), and audit entries are stored as they are.
    -- Rows of schemas 1 to 12 stay as they were packed (see `old_packing`).
    """,
    """
    -- The view and the spec of a run lack what other columns say and fields that have their default; digests of sets of
    -- tools are bytes; messages name their run by its number; audit entries of version 3 refer to the decision. Earlier
    -- rows stay as they are.
    CREATE INDEX tool_calls_by_run ON tool_calls (run_id);
    """,
    """
    -- What a client sent with a message that waits: the id that it will have, and references to pictures as JSON.
    ALTER TABLE inbox ADD COLUMN message_id TEXT;
    ALTER TABLE inbox ADD COLUMN images TEXT;
    """,
)


def migrate(connection: sqlite3.Connection) -> None:
    """Bring the schema up to date. Raises `ConfigurationError` for a log that a newer version wrote."""
    if _version(connection) == len(MIGRATIONS):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        for script in MIGRATIONS[_version(connection) :]:  # read again: another server may have opened the same log
            for statement in _statements(script):
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def is_current(connection: sqlite3.Connection) -> bool:
    """Whether the schema is this version's. Raises `ConfigurationError` for a log that a newer version wrote."""
    return _version(connection) == len(MIGRATIONS)


def _version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > len(MIGRATIONS):
        raise ConfigurationError(
            f"The log was written by a newer Agent Kernel (schema {version}, this one knows {len(MIGRATIONS)}). "
            "Update Agent Kernel, or set another data directory."
        )
    return int(version)


def _statements(script: str) -> Iterator[str]:
    """One by one, because `executescript` ends the transaction it is called in."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
