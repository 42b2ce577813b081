"""`agent-kernel chat` in a pseudo-terminal, and what a person sees and types there."""

import asyncio
import os
import sys
from typing import Any

import pexpect

PROGRAM = "import sys; from agent_kernel.cli import main; sys.exit(main(['chat', *sys.argv[1:]]))"


class TerminalProgram:
    """What a person sees is all that was written, in order: nothing is drawn over."""

    def __init__(self, *arguments: str, token: str) -> None:
        inherited = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        self._process = pexpect.spawn(
            sys.executable,
            ["-c", PROGRAM, *arguments],
            env={**inherited, "JUPYTER_TOKEN": token},
            dimensions=(40, 100),
            encoding="utf-8",
        )
        self.text = ""
        self._read = 0

    async def until(self, *texts: str, seconds: float = 60.0) -> str:
        """Wait for texts, each behind what was waited for before; what was written up to the end of the last."""
        before = self._read
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        for text in texts:
            while (at := self.text.find(text, self._read)) < 0:
                goes_on = await self._pump() and loop.time() < end
                assert goes_on, f"Waited for {text!r} in:\n{self.text}"
            self._read = at + len(text)
        return self.text[before : self._read]

    def type(self, line: str) -> None:
        self._process.send(f"{line}\n")

    def send(self, keys: str) -> None:
        self._process.send(keys)

    async def ended(self, seconds: float = 60.0) -> int | None:
        """The exit code."""
        async with asyncio.timeout(seconds):
            while await self._pump():
                pass
        self.close()
        status: int | None = self._process.exitstatus
        return status

    async def _pump(self) -> bool:
        """Read what was written. Whether the program goes on."""

        def read() -> Any:
            try:
                return self._process.read_nonblocking(65_536, timeout=0.1)
            except pexpect.TIMEOUT:
                return ""
            except pexpect.EOF:
                return None

        written = await asyncio.to_thread(read)
        self.text += (written or "").replace("\r", "")
        return written is not None

    def close(self) -> None:
        self._process.close(force=True)
