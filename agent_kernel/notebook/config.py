"""`%agent config`: the defaults of this kernel's later prompts. Options on a prompt's own line win."""

import contextlib
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args

from IPython.core.error import UsageError

from agent_kernel.protocol.vocabulary import Effort, OnChange, PolicyMode
from agent_kernel.tools.review.hidden import reveal

NAMES = ("model", "policy", "wait", "effort", "tools")
_OF_PAGES = ("model", "policy", "wait", "effort")
_USAGE = (
    "Write for example: %agent config model=NAME policy=plan wait=true. "
    "model= clears one, %agent config reset clears all."
)
_WAIT = {"true": True, "false": False}
VALUES: Mapping[str, Sequence[str]] = {
    "policy": get_args(PolicyMode),
    "effort": get_args(Effort),
    "on-change": get_args(OnChange),
    "wait": tuple(_WAIT),
}


def words_of(line: str) -> list[str] | None:
    """The words after `config`; `None` for a line that is a prompt. Raises `UsageError`."""
    name, _, rest = line.strip().partition(" ")
    if name != "config":
        return None
    try:
        words = shlex.split(rest)
    except ValueError as error:
        if "=" not in rest.partition(" ")[0]:
            return None
        raise UsageError(f"{error}. {_USAGE}") from None
    if len(words) == 2 and words[0] in NAMES:
        raise UsageError(f"Write %agent config {words[0]}={words[1]}.")
    return words if not words or words == ["reset"] or "=" in words[0] else None


def value_of(name: str, text: str) -> Any:
    """The value of an option or a default from its text. Raises `UsageError`."""
    if name in VALUES and text not in VALUES[name]:
        *first, last = VALUES[name]
        raise UsageError(f"There is no {name} {text!r}. Use {', '.join(first)} or {last}.")
    if name == "wait":
        return _WAIT[text]
    return tuple(part for part in text.split(",") if part) if name == "tools" else text


class Defaults:
    """The defaults of one kernel."""

    def __init__(self, check_tools: Callable[[tuple[str, ...]], object]) -> None:
        """`check_tools` raises for names that are not tools."""
        self._check_tools = check_tools
        self.values: dict[str, Any] = {}
        self._page: dict[str, Any] = {}

    @property
    def in_force(self) -> Mapping[str, Any]:
        """This kernel's own, and below them those of the page that runs the prompt."""
        return {**self._page, **self.values}

    def take_page(self, defaults: Mapping[str, str]) -> None:
        """Take the settings of the page that runs the next prompt. One that is not valid is left out."""
        self._page = {}
        for name in _OF_PAGES:
            if defaults.get(name):
                with contextlib.suppress(UsageError):
                    self._page[name] = value_of(name, defaults[name])

    def change(self, words: Sequence[str]) -> str:
        """Set the defaults of words such as `policy=plan`; all of them, or none if one is not valid. Returns the new
        defaults as text. Raises `UsageError`."""
        if list(words) == ["reset"]:
            self.values = {}
            return self.text()
        values = dict(self.values)
        for word in words:
            name, equals, text = word.partition("=")
            if not equals or name not in NAMES:
                raise UsageError(f"{word!r} is no default. There are {', '.join(NAMES)}. {_USAGE}")
            if not text:
                values.pop(name, None)
                continue
            values[name] = value_of(name, text)
            if name == "tools":
                self._check_tools(values[name])
        self.values = values
        return self.text()

    def text(self) -> str:
        page = f" Below them, this page's settings: {_line(self._page)}." if self._page else ""
        if not self.values:
            return f"This kernel's prompts have no defaults of their own.{page} {_USAGE}"
        return f"Defaults of this kernel's prompts: {self.line()}. Options on a prompt's own line win.{page}"

    def line(self) -> str:
        return _line(self.values)


def _line(values: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={_text(values[name])}" for name in NAMES if name in values)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return reveal(",".join(value) if isinstance(value, tuple) else str(value))
