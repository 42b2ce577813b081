"""Finds secrets in code: those that it reads, by their names, and those that are written in it."""

import re
from collections.abc import Iterator

from agent_kernel.tools.review.findings import Finding

_SECRET_VARIABLE = re.compile(r"(?i)key|token|secret|passw|pwd|credential|auth|_dsn$|database_url")
_SECRET_FILE = re.compile(
    r"(?:^|[/\\~])(?:\.(?:ssh|aws|gnupg|kube|docker|azure|netrc|pgpass|git-credentials|npmrc|pypirc|env|kaggle)(?:$|[/\\])"
    r"|id_(?:rsa|dsa|ecdsa|ed25519)$|credentials(?:\.json)?$|service[_-]account[\w-]*\.json$)"
    r"|^/etc/(?:shadow|passwd|sudoers)|^/proc/[^/]+/(?:environ|mem)$|\.(?:pem|p12|pfx|kdbx)$"
    r"|jupyter/runtime|jupyter_cookie_secret"
)
_PASSWORD_NAME = re.compile(
    r"(?i)(?:^|[_-])(?:password|passwd|pwd|passphrase|secret|api_?key|access_?key|secret_?key|private_?key|client_?secret|"
    r"auth_?token|access_?token|api_?token|bearer_?token|(?<!pad_)(?<!eos_)(?<!bos_)(?<!sep_)(?<!cls_)(?<!unk_)token)$"
)
_NO_PASSWORD = re.compile(
    r"(?is)^(?:\W*|\w{0,3}|.*[\s<>{}\[\]$|/\\].*|your\b.*|.*example.*|change_?me|none|null|x+|password|token)$"
)
_WRITTEN = {
    "an AWS access key": re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    "a GitHub token": re.compile(r"\b(?:gh[pousr]_[0-9A-Za-z]{30}|github_pat_[0-9A-Za-z_]{22})"),
    "a private key": re.compile(r"-----BEGIN (?:[A-Z]+ ){0,3}PRIVATE KEY-----"),
    "an API key": re.compile(
        r"\b(?:sk-[0-9A-Za-z_-]{20}|AIza[0-9A-Za-z_-]{30}|hf_[0-9A-Za-z]{30}|glpat-[0-9A-Za-z_-]{20})"
    ),
    "a Slack token": re.compile(r"\bxox[abprs]-[0-9A-Za-z-]{10}"),
    "an address with a password": re.compile(r"\b[a-z][a-z0-9+]{1,20}://[^\s/:@{}]{1,80}:[^\s/:@{}]{3,80}@"),
}
_LOOKED_AT = 4_000


def variable_read(name: str) -> Finding:
    """The effect of reading an environment variable."""
    is_secret = _SECRET_VARIABLE.search(name[:_LOOKED_AT])
    return ("Reads secrets:" if is_secret else "Reads the environment:"), name


def in_text(text: str) -> Iterator[Finding]:
    """The effect of a text that names a file of secrets, or contains a secret, which is not repeated."""
    if len(text) < 500 and _SECRET_FILE.search(text) and not re.search(r"\s", text):
        yield "Reads secrets:", text
    if len(text) >= 8:
        looked_at = text[:_LOOKED_AT]
        yield from (("Contains secrets:", kind) for kind, pattern in _WRITTEN.items() if pattern.search(looked_at))


def set_to(name: str, text: str) -> Iterator[Finding]:
    """The effect of a password in the code, such as `password="..."`, reported by its name."""
    if len(name) <= 100 and len(text) < 1_000 and _PASSWORD_NAME.search(name) and not _NO_PASSWORD.match(text):
        yield "Contains secrets:", name
