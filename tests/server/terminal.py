"""`agent-kernel chat` in a pseudo-terminal, and what a person sees and types there."""

import asyncio
import io
import os
import sys

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
            timeout=60,
        )
        self._written = self._process.logfile_read = io.StringIO(newline="")

    @property
    def text(self) -> str:
        return self._written.getvalue().replace("\r", "")

    async def until(self, *texts: str) -> None:
        """Wait for texts, each behind what was waited for before."""
        for text in texts:
            await asyncio.to_thread(self._process.expect_exact, text.replace("\n", "\r\n"))

    def type(self, line: str) -> None:
        self._process.send(f"{line}\n")

    def send(self, keys: str) -> None:
        self._process.send(keys)

    async def ended(self) -> int | None:
        """The exit code."""
        await asyncio.to_thread(self._process.expect_exact, pexpect.EOF)
        self.close()
        status: int | None = self._process.exitstatus
        return status

    def close(self) -> None:
        self._process.close(force=True)
