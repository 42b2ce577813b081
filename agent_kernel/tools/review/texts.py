"""What the texts in code say: secrets, by their names and forms, and statements that change a database."""

import re
from collections.abc import Iterator

from agent_kernel.tools.review.effects import words
from agent_kernel.tools.review.findings import Finding

_LOOKED_AT = 4_000
"""The most characters of a text that are read."""
_SHOWN = 1_000
EXECUTES = words("execute executemany executescript exec_driver_sql")
"""Methods of any object whose text is a statement."""
QUERIES = EXECUTES | words("sql query eval raw read_sql read_sql_query read_database")

_SECRET_VARIABLE = re.compile(r"(?i)key|token|secret|passw|pwd|credential|auth|_dsn$|database_url")
_SECRET_FILE = re.compile(
    r"(?:^|[/\\~])(?:\.(?:ssh|aws|gnupg|kube|docker|azure|netrc|pgpass|git-credentials|npmrc|pypirc|env|kaggle)(?:$|[/\\])"
    r"|id_(?:rsa|dsa|ecdsa|ed25519)$|credentials(?:\.json)?$)|^/etc/shadow|^/proc/[^/]+/environ$|\.(?:pem|p12|pfx)$"
    r"|jupyter/runtime|jupyter_cookie_secret"
)
_PASSWORD_NAME = re.compile(
    r"(?i)(?:^|[_-])(?:password|passwd|pwd|passphrase|secret|(?:api|access|secret|private)_?key|client_?secret|"
    r"(?:auth|access|api|bearer)_?token|(?<!pad_)(?<!eos_)(?<!bos_)(?<!sep_)(?<!cls_)(?<!unk_)token)$"
)
_NO_PASSWORD = re.compile(
    r"(?is)^(?:\W*|\w{0,3}|.*[\s<>{}\[\]$|/\\].*|your\b.*|.*example.*|change_?me|none|null|x+|password|token)$"
)
_WRITTEN = {
    "an AWS access key": re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    "a private key": re.compile(r"-----BEGIN (?:[A-Z]+ ){0,3}PRIVATE KEY-----"),
    "an API key": re.compile(
        r"\b(?:sk-[0-9A-Za-z_-]{20}|AIza[0-9A-Za-z_-]{30}|hf_[0-9A-Za-z]{30}|glpat-[0-9A-Za-z_-]{20}"
        r"|gh[pousr]_[0-9A-Za-z]{30}|github_pat_[0-9A-Za-z_]{22}|xox[abprs]-[0-9A-Za-z-]{10})"
    ),
    "an address with a password": re.compile(r"\b[a-z][a-z0-9+]{1,20}://[^\s/:@{}]{1,80}:[^\s/:@{}]{3,80}@"),
}
_CHANGE = re.compile(
    r"\b(?:insert\s+(?:or\s+\w+\s+)?(?:into|overwrite)|update\s+\S+\s+set|delete\s+from|replace\s+into|merge\s+into|"
    r"(?:drop|alter|create|truncate)\s+(?:or\s+\w+\s+)?(?:\w+\s+){0,2}(?:table|view|database|schema|index|user|role)|"
    r"truncate\s+\w|grant\s+\w+|revoke\s+\w+|copy\s+\S+\s+(?:to|from)|attach\s+database|vacuum)\b",
    re.IGNORECASE,
)
_BY_NAME = re.compile(
    r"(?i:(?:^|[._])(?:con|conn|connection|cur|cursor|db|engine|session)\.commit$)"
    r"|(?:\.(?:query|filter|filter_by|exclude)\b|\b[A-Z]\w*\.objects\b).*\.(?:delete|update)$",
    re.DOTALL,
)
"""Methods without a text: `connection.commit()`, `session.query(Order).delete()`."""


def variable_read(name: str) -> Finding:
    """The effect of reading an environment variable."""
    is_secret = _SECRET_VARIABLE.search(name[:_LOOKED_AT])
    return ("Reads secrets:" if is_secret else "Reads the environment:"), name


def secrets_in(text: str) -> Iterator[Finding]:
    """The effect of a text that names a file of secrets, or contains a secret, which is not repeated."""
    if len(text) < 500 and _SECRET_FILE.search(text) and not re.search(r"\s", text):
        yield "Reads secrets:", text
    if len(text) >= 8:
        looked_at = text[:_LOOKED_AT]
        yield from (("Contains secrets:", kind) for kind, pattern in _WRITTEN.items() if pattern.search(looked_at))


def secret_set(name: str, text: str) -> Iterator[Finding]:
    """The effect of a password in the code, such as `password="..."`, reported by its name."""
    if len(name) <= 100 and len(text) < 1_000 and _PASSWORD_NAME.search(name) and not _NO_PASSWORD.match(text):
        yield "Contains secrets:", name


def database_changes(statement: str) -> Iterator[Finding]:
    if _CHANGE.search(statement[:_LOOKED_AT]):
        yield "Changes a database:", statement[:_SHOWN].strip()


def changes_by_name(function: str) -> bool:
    """Whether a method changes a database, by the code of its name."""
    return _BY_NAME.search(function[-_SHOWN:]) is not None
