"""The lines that the code of a call asks a person for, with `input()` and `getpass()`."""

import asyncio

from agent_kernel.protocol.views import OutputView, ToolCallView
from agent_kernel.runtime.state.active_run import ActiveRun
from agent_kernel.runtime.tool_calls.call_outputs import CallOutputs
from agent_kernel.runtime.tool_calls.server_questions import ask_person
from agent_kernel.tools.executor import InputRequest

ASKS = "The code asks for a line."
_HIDDEN = "········"


class CallLines:
    """Of one call. A question that is skipped interrupts the code, and one of a call that ends is withdrawn."""

    def __init__(self, run: ActiveRun, call: ToolCallView, outputs: CallOutputs) -> None:
        self._run, self._call, self._outputs = run, call, outputs
        self._asking: asyncio.Task[None] | None = None

    def emit(self, shown: OutputView | InputRequest) -> None:
        """Take an output of the call; or ask for a line, one at a time, as the code waits for it."""
        if isinstance(shown, OutputView):
            self._outputs.add(shown)
        elif self._asking is None or self._asking.done():
            name = f"line of {self._call.tool_call_id}"
            self._asking = self._run.outside_graph(self._ask(shown), name)

    async def _ask(self, asked: InputRequest) -> None:
        prompt = asked.prompt
        line = await ask_person(
            self._run, self._call, prompt.strip() or ASKS, (), "password" if asked.password else "text"
        )
        if line is None:
            if self._run.executor is not None:
                await self._run.executor.interrupt(self._call.approval_id)
            return
        if asked.password:
            self._run.hide_password(line)
            self._outputs.hide()
        shown = _HIDDEN if asked.password else line
        self._outputs.add(OutputView(kind="stream", name="stdout", text=f"{prompt}{shown}\n"))
        asked.reply(line)

    async def aclose(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)
