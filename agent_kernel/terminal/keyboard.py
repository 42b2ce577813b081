"""What is asked at the keyboard: a key, a line, a text in the person's editor.

Keys that were pressed before a question was on screen are dropped, and so are those of its first moment: nobody has
read it by then.
"""

import asyncio
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from prompt_toolkit import PromptSession
from prompt_toolkit.application import Application
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input.typeahead import clear_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import Layout, Window
from prompt_toolkit.layout.controls import FormattedTextControl

GUARD_SECONDS = 0.4
INTERRUPT = "interrupt"
"""The answer of Ctrl+C, in place of any other."""


class Keyboard:
    """One question at a time. An answer of `INTERRUPT` is Ctrl+C's; cancelling a question takes it off the screen."""

    def __init__(self) -> None:
        # The cursor's place need not be known; a terminal that does not tell it would hold up each question.
        os.environ.setdefault("PROMPT_TOOLKIT_NO_CPR", "1")
        self._history = InMemoryHistory()
        self.editor_closed = asyncio.Event()
        self.editor_closed.set()

    async def key(self, text: str, choices: Mapping[str, str], *, escape: str = "", guard: bool = True) -> str:
        """One of the keys of `choices`, each with the name of what it does; Escape is `escape`, if that is one.
        Without `guard`, the first moment counts as well."""
        bindings = KeyBindings()
        asked = time.monotonic()

        def bind(key: str, result: str) -> None:
            def press(event: KeyPressEvent) -> None:
                if not guard or result == INTERRUPT or time.monotonic() - asked > GUARD_SECONDS:
                    event.app.exit(result=result)

            bindings.add(key, eager=True)(press)

        bindings.add(Keys.Any)(lambda _: None)
        bindings.add(Keys.BracketedPaste)(lambda _: None)
        for key in choices:
            bind("enter" if key == "Enter" else key, key)
        if escape:
            bind("escape", escape)
        bind("c-c", INTERRUPT)
        fragments: StyleAndTextTuples = [("bold", text), ("", "\n")]
        for key, name in choices.items():
            fragments += [("bold", f"[{key}]"), ("", f" {name}  ")]
        control = FormattedTextControl(fragments, show_cursor=False)
        window = Window(control, wrap_lines=True, dont_extend_height=True)
        app: Application[str] = Application(Layout(window), key_bindings=bindings, erase_when_done=True)
        _drop_keys(app)
        return await app.run_async(handle_sigint=False)

    async def line(self, text: str, *, note: str = "", default: str = "", drop: bool = True) -> str | None:
        """A line of text; `None` for Escape or Ctrl+D. `drop`: not what was typed before it was asked for."""
        bindings = KeyBindings()
        bindings.add("escape", eager=True)(lambda event: event.app.exit(result=None))
        bindings.add("c-c", eager=True)(lambda event: event.app.exit(result=INTERRUPT))
        session: PromptSession[str | None] = PromptSession(erase_when_done=True, history=self._history)
        if drop:
            _drop_keys(session.app)
        message: StyleAndTextTuples = [("bold", text), ("", " ")]
        try:
            return await session.prompt_async(
                message,
                key_bindings=bindings,
                default=default,
                placeholder=[("ansibrightblack", note)],
                handle_sigint=False,
            )
        except EOFError:
            return None

    async def edit(self, text: str, suffix: str) -> str | None:
        """The text as the person leaves it in $VISUAL or $EDITOR; `None` where the editor failed. Nothing may be
        printed until it is closed."""
        command = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or _usual_editor())

        def run() -> str | None:
            with tempfile.TemporaryDirectory(prefix="agent-kernel-") as folder:
                file = Path(folder) / f"call{suffix}"
                file.write_text(text, encoding="utf-8")
                try:
                    done = subprocess.run([*command, str(file)], check=False)
                except OSError:
                    return None
                return file.read_text(encoding="utf-8", errors="replace") if done.returncode == 0 else None

        self.editor_closed.clear()
        try:
            return await asyncio.to_thread(run)
        finally:
            self.editor_closed.set()


def _drop_keys(app: "Application[Any]") -> None:
    clear_typeahead(app.input)
    with suppress(ImportError, OSError, ValueError):
        import termios

        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


@contextmanager
def quiet_keys() -> Iterator[None]:
    """Keys that are pressed while nothing is asked do not appear in the midst of what is printed."""
    try:
        import termios

        before = termios.tcgetattr(sys.stdin.fileno())
    except (ImportError, OSError, ValueError):
        yield
        return
    quiet = [*before]
    quiet[3] &= ~termios.ECHO
    try:
        termios.tcsetattr(sys.stdin.fileno(), termios.TCSANOW, quiet)
        yield
    finally:
        with suppress(OSError, termios.error):
            termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, before)


def _usual_editor() -> str:
    return "notepad" if os.name == "nt" else "vi"


Print = Callable[[], None]


async def above(print_it: Print) -> None:
    """Print above the question that is on screen, if there is one."""
    from prompt_toolkit.application import run_in_terminal

    await run_in_terminal(print_it)
