"""Rules as people write them.

    allow run_python
    deny run_shell where command matches "curl *"
    ask write_file where path matches "*.parquet"
    allow run_python where digest is 9f2c...        (this exact call)

One rule a line: a verb, a tool's name or `*`, and at most one condition on an argument; `matches` takes a shell
pattern (`fnmatch`), `is` an exact text. Where a rule allows by `path`, a `*` stays within one folder and a path with
`..` is never covered, so that `exports/*.csv` allows nothing outside of `exports`. Where it denies or asks by `path`,
the path counts as it is written and without its `.` and `..`, so that `./secret/key` is no way around `secret/*`.
"""

import fnmatch
import posixpath
import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Literal, Self

from agent_kernel.errors import ConfigurationError
from agent_kernel.protocol.vocabulary import Approval

_RULE = re.compile(
    r"(?P<verb>allow|ask|deny)\s+(?P<tool>\*|[A-Za-z0-9_-]+)"
    r"(?:\s+where\s+(?P<argument>\w+)\s+(?P<relation>matches|is)\s+(?:\"(?P<quoted>.*)\"|(?P<bare>\S+)))?"
)


@dataclass(frozen=True, slots=True)
class Rule:
    verb: Approval
    tool: str
    argument: str | None = None
    relation: Literal["matches", "is"] = "is"
    value: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises `ConfigurationError` with the text and the forms that are understood."""
        found = _RULE.fullmatch(text.strip())
        if found is None:
            raise ConfigurationError(
                f"The rule {text!r} is not understood. Write for example: allow run_python; "
                'deny run_shell where command matches "curl *"'
            )
        verb: Any = found["verb"]
        relation: Any = found["relation"] or "is"
        value = found["quoted"] if found["quoted"] is not None else found["bare"] or ""
        return cls(verb, found["tool"], found["argument"], relation, value)

    def covers(self, tool: str, arguments: dict[str, Any], digest: str) -> bool:
        if self.tool not in ("*", tool):
            return False
        if self.argument is None:
            return True
        actual = digest if self.argument == "digest" else arguments.get(self.argument)
        if not isinstance(actual, str):
            return False
        if self.argument != "path":
            return self._fits(actual)
        if self.verb != "allow":
            return self._fits(actual) or self._fits(posixpath.normpath(actual))
        return _within_folder(actual, self.value) if self.relation == "matches" else self._fits(actual)

    def _fits(self, actual: str) -> bool:
        return actual == self.value if self.relation == "is" else fnmatch.fnmatchcase(actual, self.value)


def _within_folder(path: str, pattern: str) -> bool:
    """Folder by folder, after `.` and doubled slashes are taken out. Links are not followed: the brain has no files."""
    parts, wanted = PurePosixPath(path).parts, PurePosixPath(pattern).parts
    if ".." in parts or "\\" in path or len(parts) != len(wanted):
        return False
    return all(map(fnmatch.fnmatchcase, parts, wanted))
