"""`agent-kernel chat` in a pseudo-terminal, and what a person sees and presses there."""

import asyncio
import os
import re
import sys
from collections.abc import Mapping
from typing import Any

import pexpect

PROGRAM = "import sys; from agent_kernel.cli import main; sys.exit(main(['chat', *sys.argv[1:]]))"
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\r")


class TerminalProgram:
    """Texts are those that were written, in order, without the sequences that place and colour them."""

    def __init__(self, *arguments: str, token: str, columns: int = 100, variables: Mapping[str, str] | None = None):
        inherited = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        environment = {**inherited, "TERM": "xterm-256color", "JUPYTER_TOKEN": token, **(variables or {})}
        self._process = pexpect.spawn(
            sys.executable, ["-c", PROGRAM, *arguments], env=environment, dimensions=(40, columns), encoding="utf-8"
        )
        self.raw = ""
        self._read = 0

    async def until(self, text: str, seconds: float = 60.0) -> str:
        """Wait for a text behind what was waited for before; what was written up to its end."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while (at := self.text.find(text, self._read)) < 0:
            assert loop.time() < end, f"Waited for {text!r} in:\n{self.text}"
            await self._pump()
        before, self._read = self._read, at + len(text)
        return self.text[before : self._read]

    async def press(self, keys: str) -> None:
        """Press keys, once the first moment of a question is over in which they do not count."""
        await asyncio.sleep(0.5)
        self._process.send(keys)

    async def ended(self, seconds: float = 60.0) -> int | None:
        """The exit code."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while self._process.isalive():
            assert loop.time() < end, f"It has not ended:\n{self.text}"
            await self._pump()
        await self._pump()
        self.close()
        status: int | None = self._process.exitstatus
        return status

    @property
    def text(self) -> str:
        return CONTROL.sub("", self.raw)

    async def _pump(self) -> None:
        def read() -> Any:
            try:
                return self._process.read_nonblocking(65_536, timeout=0.1)
            except (pexpect.TIMEOUT, pexpect.EOF):
                return ""

        self.raw += await asyncio.to_thread(read)

    def close(self) -> None:
        self._process.close(force=True)
