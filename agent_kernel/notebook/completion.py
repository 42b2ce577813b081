"""The tab key in prompts: options, subcommands, and what a prompt can mention. IPython's completer asks for it, so that
every front end and plain IPython have it."""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult, context_matcher
from IPython.core.interactiveshell import InteractiveShell

from agent_kernel.errors import AgentKernelError
from agent_kernel.notebook.config import NAMES, VALUES
from agent_kernel.notebook.inspect import column_names, user_variables
from agent_kernel.notebook.model_list import model_list
from agent_kernel.notebook.offered_tools import FOLDER
from agent_kernel.tools.builtin.declarations import BUILTIN_TOOLS

_IDENTIFIER = "agent_kernel"
COMMANDS = (
    "code",
    "config",
    "help",
    "history",
    "models",
    "new",
    "redo",
    "rules",
    "show",
    "stats",
    "status",
    "stop",
    "tools",
    "undo",
)
_NAMES = ("model", "policy", "effort", "tools", "wait", "new", "record", "on-change", "allow-failure")
OPTIONS = tuple(f"--{name}" for name in _NAMES)
TAB_SECONDS = 0.4
"""How long the tab key may block the kernel before the first list of models has come."""
_ALWAYS = ("demo", "replay:")
_MOST_FILES = 200
_LOOKED_AT = 2_000
_CELLS = 20
_CELL = re.compile(r"%%agent(?=\s|$)")
_LINE = re.compile(r"\s*%%?agent[ \t]+(?P<words>.*)")
_NO_CODE = re.compile(r"\s*(?:%%?agent|\Z)")
_OPTION = re.compile(
    r"(?:^|\s)--(?:(?P<name>model|policy|effort|tools|record|on-change)(?:=|\s+)|wait=)(?P<value>\S*)$"
)
_MENTION = re.compile(r"(?<![\w@.+/\\)\]-])@(?P<begun>\"[^\"\n]*|\[\d*|[\w./-]*)$")
_PLAIN = re.compile(r"[\w./-]+")
_WORD = re.compile(r"(?<![\w.@+-])[^\W\d][\w.]*$")


def load(shell: InteractiveShell) -> None:
    completer = PromptCompleter(shell)

    def prompts(context: CompletionContext) -> SimpleMatcherResult:
        lines = context.full_text.split("\n")
        lines[context.cursor_line] = lines[context.cursor_line][: context.cursor_position]
        found = completer.offers("\n".join(lines[: context.cursor_line + 1])) or Offers("", {})
        return {
            "completions": [SimpleCompletion(text, type=kind) for text, kind in found.texts.items()],
            "matched_fragment": found.written,
            "suppress": True,  # what IPython offers in Python
            "ordered": True,
        }

    unload(shell)
    shell.Completer.custom_matchers.append(context_matcher(identifier=_IDENTIFIER)(prompts))


def unload(shell: InteractiveShell) -> None:
    matchers = shell.Completer.custom_matchers
    matchers[:] = [one for one in matchers if getattr(one, "matcher_identifier", "") != _IDENTIFIER]


@dataclass(frozen=True, slots=True)
class Offers:
    """What can stand in place of `written`, the text before the cursor."""

    written: str
    texts: Mapping[str, str]
    """What each is, as front ends show it."""


class PromptCompleter:
    """For one shell. It runs none of the user's code."""

    def __init__(
        self, shell: InteractiveShell, root: Path = FOLDER, models: Callable[[], Iterable[str]] | None = None
    ) -> None:
        self._shell: Any = shell
        self._root = root
        self._models = models or model_names

    def offers(self, text: str) -> Offers | None:
        """For a cell's text up to the cursor; `None` where that is no prompt."""
        first, *more = text.lstrip().split("\n")
        if more and _CELL.match(first):
            return self._of_prompt(more[-1])
        line = (more or [first])[-1]
        command = _LINE.match(line)
        if command is None:
            return None
        words = command["words"]
        found = self._of_option(words)
        if found is None and not line.startswith("%%"):
            found = self._of_command(words)
        return found or self._of_prompt(words)

    def _of_option(self, words: str) -> Offers | None:
        if (option := _OPTION.search(words)) is not None:
            name, value = option["name"] or "wait", option["value"]
            if name == "tools":
                before, comma, value = value.rpartition(",")
                return _offers(value, sorted(self._tools()), "tool") if comma or not before else None
            values = self._models() if name == "model" else VALUES.get(name, ())
            return _offers(value, values, name)
        last = words.split(" ")[-1]
        return _offers(last, OPTIONS, "option") if last.startswith("-") else None

    def _of_command(self, words: str) -> Offers | None:
        first, *more = words.split(" ")
        if not more:
            return _offers(first, COMMANDS, "command")
        if first != "config":
            return _offers(more[0], ("remove",), "option") if first == "rules" and len(more) == 1 else None
        name, equals, value = more[-1].partition("=")
        if not equals:
            return _offers(name, (*(f"{one}=" for one in NAMES), "reset"), "default")
        return _offers(value, self._models() if name == "model" else VALUES.get(name, ()), name)

    def _of_prompt(self, line: str) -> Offers | None:
        mention = _MENTION.search(line)
        if mention is None:
            word = _WORD.search(line)
            return None if word is None else _offers(word[0], sorted(self._variables(word[0])), "variable")
        begun = mention["begun"]
        if begun.startswith("["):
            return _offers(begun, self._cells(), "cell")
        if begun.startswith('"'):
            return _offers(begun, (f'"{name}"' for name in self._files(begun[1:])), "file")
        files = (name if _PLAIN.fullmatch(name) else f'"{name}"' for name in self._files(begun))
        variables = _offers(begun, sorted(self._variables(begun)), "variable").texts
        return Offers(begun, {**variables, **dict.fromkeys(files, "file")})

    def _variables(self, begun: str) -> Iterator[str]:
        mine = user_variables(self._shell.user_ns, self._shell.user_ns_hidden)
        name, dot, _ = begun.partition(".")
        if not dot:
            yield from mine
        elif name in mine:
            yield from (f"{name}.{column}" for column in column_names(mine[name]) if column.isidentifier())

    def _files(self, begun: str) -> list[str]:
        """The files and folders of the folder that is named so far: none that are hidden, and no links."""
        folder, slash, _ = begun.rpartition("/")
        parts = folder.split("/") if slash else []
        if any(not part or part.startswith(".") for part in parts):
            return []
        place = self._root.joinpath(*parts)
        found: list[str] = []
        try:
            if Path(os.path.realpath(place)) != Path(os.path.realpath(self._root)).joinpath(*parts):
                return []
            with os.scandir(place) as entries:
                for _, entry in zip(range(_LOOKED_AT), entries, strict=False):
                    if not entry.name.startswith(".") and not entry.is_symlink():
                        found.append(f"{folder}{slash}{entry.name}{'/' if entry.is_dir() else ''}")
        except (OSError, ValueError):
            return []
        return sorted(name for name in found if name.startswith(begun))[:_MOST_FILES]

    def _cells(self) -> list[str]:
        """The cells that ran last, but for prompts."""
        history = self._shell.history_manager
        sources = history.input_hist_raw if history is not None else []
        ran = (number for number in range(len(sources) - 1, 0, -1) if not _NO_CODE.match(sources[number]))
        return [f"[{number}]" for _, number in zip(range(_CELLS), ran, strict=False)]

    def _tools(self) -> Iterator[str]:
        yield from (tool.name for tool in BUILTIN_TOOLS)
        for name, value in list(self._shell.user_ns.items()):
            if type(value).__name__ == "function" and not name.startswith("_"):
                yield name


def _offers(written: str, texts: Iterable[str], kind: str) -> Offers:
    return Offers(written, dict.fromkeys((text for text in texts if text.startswith(written)), kind))


def model_names() -> list[str]:
    """The models that are known within the time of a pressed key."""
    try:
        models = model_list().wait(TAB_SECONDS)
    except AgentKernelError:
        models = None
    listed = [model.name for endpoint in models.endpoints for model in endpoint.models] if models else []
    default = [models.default] if models and models.default else []
    return list(dict.fromkeys((*default, *listed, *_ALWAYS)))
