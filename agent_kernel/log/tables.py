"""The tables of the log, in one version. A change to them after a release needs a migration."""

import sqlite3
from pathlib import Path

from agent_kernel.errors import OtherSchema

SCHEMA = 21
"""In SQLite's `user_version`. Smaller numbers are those of logs from before the first release."""

_TABLES = """
CREATE TABLE IF NOT EXISTS conversations (
    -- Never given out again: what is remembered of a deleted conversation must not become another's.
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    conversation_id TEXT NOT NULL UNIQUE,
    kernel_id TEXT,
    model TEXT,
    notebook_path TEXT,
    created_at TEXT NOT NULL,
    policy TEXT, -- chosen by a person while it went on
    client TEXT, -- the agent outside that asks in it, by the name that it gave
    client_user TEXT, -- on whose behalf
    client_home TEXT -- the first conversation of this client in this notebook
);
CREATE INDEX IF NOT EXISTS conversations_of_clients ON conversations (client_home) WHERE client_home IS NOT NULL;
CREATE TABLE IF NOT EXISTS tool_sets (
    digest TEXT PRIMARY KEY,
    tools TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS runs (
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
CREATE INDEX IF NOT EXISTS runs_by_conversation ON runs (conversation, number);
CREATE INDEX IF NOT EXISTS runs_open ON runs (conversation) WHERE status IN ('queued', 'running');
-- The one call of each run that an agent outside asked for.
CREATE TABLE IF NOT EXISTS client_calls (
    run_id TEXT PRIMARY KEY REFERENCES runs (run_id) ON DELETE CASCADE,
    home TEXT NOT NULL, -- the conversation's `client_home`
    tool_name TEXT NOT NULL,
    digest TEXT NOT NULL, -- of the arguments as they were asked for
    delivered_at TEXT -- when the client was first sent the result
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS client_calls_undelivered ON client_calls (home, digest) WHERE delivered_at IS NULL;
CREATE TABLE IF NOT EXISTS messages (
    conversation INTEGER NOT NULL REFERENCES conversations (number) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    message_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    body BLOB NOT NULL, -- or the number of the tool call whose result it says
    PRIMARY KEY (conversation, position)
);
CREATE TABLE IF NOT EXISTS inbox (
    number INTEGER PRIMARY KEY,
    conversation INTEGER NOT NULL REFERENCES conversations (number) ON DELETE CASCADE,
    run_id TEXT NOT NULL,
    content TEXT NOT NULL,
    message_id TEXT, -- the id that a client gave it
    images TEXT -- references to pictures, as JSON
);
CREATE TABLE IF NOT EXISTS events (
    conversation INTEGER NOT NULL REFERENCES conversations (number) ON DELETE CASCADE,
    seq INTEGER NOT NULL,
    run INTEGER, -- its number
    type TEXT NOT NULL,
    body BLOB NOT NULL, -- its other fields
    PRIMARY KEY (conversation, seq)
);
CREATE TABLE IF NOT EXISTS tool_calls (
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
    asked_at TEXT, -- when a person was asked
    decision_source TEXT, -- a `DecisionSource`
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
    undo TEXT,
    undone INTEGER NOT NULL DEFAULT 0,
    waiting_behind INTEGER,
    unknown_answer TEXT,
    images TEXT, -- what it showed, as the messages have it
    seen_images INTEGER NOT NULL DEFAULT 0,
    place TEXT, -- where the path of a file tool's call leads (`Place`, as JSON): what it was judged by, and may open
    cached_at TEXT, -- when the outcome was had that it was given instead of running
    UNIQUE (conversation, tool_call_id)
);
CREATE INDEX IF NOT EXISTS tool_calls_by_run ON tool_calls (run_id);
-- An index of all states would be written at each step of each call; only these two are looked for.
CREATE INDEX IF NOT EXISTS tool_calls_waiting ON tool_calls (number) WHERE state = 'awaiting_approval';
CREATE INDEX IF NOT EXISTS tool_calls_unknown ON tool_calls (conversation, digest) WHERE state = 'unknown';
-- Pictures that models are given, each once however often it was shown. Those of a conversation that is deleted go with
-- it, unless another has them as well.
CREATE TABLE IF NOT EXISTS images (
    digest TEXT NOT NULL UNIQUE,
    data BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS images_of_conversations (
    conversation INTEGER NOT NULL REFERENCES conversations (number) ON DELETE CASCADE,
    digest TEXT NOT NULL REFERENCES images (digest),
    PRIMARY KEY (conversation, digest)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS conversations_of_images ON images_of_conversations (digest);
CREATE TRIGGER IF NOT EXISTS images_go AFTER DELETE ON images_of_conversations
WHEN NOT EXISTS (SELECT 1 FROM images_of_conversations WHERE digest = OLD.digest)
BEGIN DELETE FROM images WHERE digest = OLD.digest; END;
-- What is left out of requests of a long conversation (see `compactions`).
CREATE TABLE IF NOT EXISTS compactions (
    number INTEGER PRIMARY KEY,
    conversation INTEGER NOT NULL REFERENCES conversations (number) ON DELETE CASCADE,
    body BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS compactions_by_conversation ON compactions (conversation, number);
-- What each turn of a model took. A row outlives its conversation, for the totals; it holds no word of it.
CREATE TABLE IF NOT EXISTS turns (
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
-- What became of each call, and of each run, in numbers. Rows outlive their conversation; they hold no word of it.
CREATE TABLE IF NOT EXISTS call_measures (
    number INTEGER PRIMARY KEY,
    run_id TEXT NOT NULL,
    at INTEGER NOT NULL, -- seconds since 1970, UTC
    tool TEXT NOT NULL, -- `unknown` if nobody declared it
    model TEXT NOT NULL, -- `recording` if no model was asked
    outcome TEXT NOT NULL,
    decided_by TEXT, -- a `DecisionSource`
    error TEXT, -- an `ErrorKind`
    wait_ms INTEGER, -- if a person was asked
    call_ms INTEGER, -- if it ran
    result_bytes INTEGER, -- if it has a result
    truncated INTEGER NOT NULL,
    cached INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS call_measures_by_run ON call_measures (run_id);
CREATE TABLE IF NOT EXISTS run_measures (
    run_id TEXT PRIMARY KEY,
    at INTEGER NOT NULL, -- seconds since 1970, UTC
    model TEXT NOT NULL,
    status TEXT NOT NULL,
    steps INTEGER NOT NULL,
    first_token_ms INTEGER
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS rules (
    rule_id TEXT PRIMARY KEY,
    scope TEXT NOT NULL,
    scope_key TEXT NOT NULL,
    text TEXT NOT NULL,
    created_at TEXT NOT NULL,
    revoked_at TEXT,
    made_by TEXT
);
CREATE TABLE IF NOT EXISTS audit (
    number INTEGER PRIMARY KEY,
    entry TEXT NOT NULL,
    hash TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS audit_head (
    number INTEGER NOT NULL,
    hash TEXT NOT NULL
);
INSERT INTO audit_head SELECT 0, '0000000000000000000000000000000000000000000000000000000000000000'
WHERE NOT EXISTS (SELECT 1 FROM audit_head);
CREATE TRIGGER IF NOT EXISTS audit_in_order BEFORE INSERT ON audit
WHEN NEW.number IS NOT (SELECT number + 1 FROM audit_head)
BEGIN SELECT RAISE(ABORT, 'the audit trail only grows at its end'); END;
CREATE TRIGGER IF NOT EXISTS audit_grows AFTER INSERT ON audit
BEGIN UPDATE audit_head SET number = NEW.number, hash = NEW.hash; END;
CREATE TRIGGER IF NOT EXISTS audit_never_changes BEFORE UPDATE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit trail only grows at its end'); END;
CREATE TRIGGER IF NOT EXISTS audit_never_shrinks BEFORE DELETE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit trail only grows at its end'); END;
CREATE TRIGGER IF NOT EXISTS audit_head_follows BEFORE UPDATE ON audit_head
WHEN NEW.number IS NOT OLD.number + 1
    OR NOT EXISTS (SELECT 1 FROM audit WHERE audit.number = NEW.number AND audit.hash = NEW.hash)
BEGIN SELECT RAISE(ABORT, 'the audit trail only grows at its end'); END;
CREATE TRIGGER IF NOT EXISTS audit_head_stays BEFORE DELETE ON audit_head
BEGIN SELECT RAISE(ABORT, 'the audit trail only grows at its end'); END;
CREATE TRIGGER IF NOT EXISTS audit_head_is_one BEFORE INSERT ON audit_head
BEGIN SELECT RAISE(ABORT, 'the audit trail only grows at its end'); END;
"""


def make_tables(connection: sqlite3.Connection) -> None:
    """Make the tables of a new log. Two servers may do so at once: the second finds that they are there."""
    if _version(connection) == SCHEMA:
        return
    try:
        connection.executescript(f"BEGIN IMMEDIATE; {_TABLES} PRAGMA user_version = {SCHEMA}; COMMIT;")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def refuse_other_schemas(connection: sqlite3.Connection, path: Path) -> None:
    """Reads only. Raises `OtherSchema` for a log of another schema; a new file has none."""
    version = _version(connection)
    if version > SCHEMA:
        raise OtherSchema(
            f"A newer Agent Kernel wrote the log at {path} (schema {version}, this one knows {SCHEMA}). "
            "Update Agent Kernel, or set another data directory."
        )
    if 0 < version < SCHEMA:
        raise OtherSchema(
            f"The log at {path} is from before Agent Kernel's first release (schema {version}, not {SCHEMA}) and can't "
            f"be read. It was left as it is. Move it away with the files beside it ({path.name}*): a new log starts."
        )


def _version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)
