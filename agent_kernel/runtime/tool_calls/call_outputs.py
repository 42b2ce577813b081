"""CallOutputs writes the outputs of one call to the log, including those that arrive after its end."""

import asyncio
import logging
from collections.abc import Iterator

from agent_kernel.models.redaction import Secrets
from agent_kernel.protocol.events import ToolOutputEvent
from agent_kernel.protocol.views import OutputView, ToolCallView
from agent_kernel.runtime.state.active_run import ActiveRun
from agent_kernel.runtime.tasks import Batcher
from agent_kernel.runtime.tool_calls.server_cards import ask_person
from agent_kernel.runtime.tool_calls.shown_images import ShownImages
from agent_kernel.tools.executor import InputRequest

logger = logging.getLogger(__name__)
_FIRST_OUTPUT_SECONDS = 0.01
_LATE_CHARACTERS = 16_777_216
"""The most output of a call after its end. The kernel limits it too, but is not trusted."""


def is_unasked(call: ToolCallView) -> bool:
    """Whether no person approved the call, so that what it reads is shown without the secrets that are known."""
    return call.by != "user"


def secrets_in(run: ActiveRun, *, unasked: bool) -> Secrets:
    """What is not shown of a call's outputs."""
    return run.secrets if unasked else Secrets(run.passwords)


class _WithoutSecrets:
    """Removes known secrets from a call's outputs, also where they are printed in pieces."""

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._held: OutputView | None = None
        """What was printed last, where it may be the beginning of a secret."""

    def take(self, output: OutputView) -> Iterator[OutputView]:
        """The outputs that may be shown."""
        held = self._held
        if held is not None and (output.kind, output.name) == (held.kind, held.name):
            output, self._held = output.model_copy(update={"text": held.text + output.text}), None
        yield from self.rest()
        if output.kind != "stream":
            text = output.model_dump_json()
            clean = self._secrets.clean(text)
            yield output if clean == text else OutputView.model_validate_json(clean)
            return
        text = self._secrets.replace(output.text)
        end = len(text) - self._secrets.beginning(text)
        if end < len(text):
            self._held = output.model_copy(update={"text": text[end:]})
        if end > 0:
            yield output.model_copy(update={"text": self._secrets.clean(text[:end])})

    def rest(self) -> Iterator[OutputView]:
        """What was held back, where nothing follows it."""
        held, self._held = self._held, None
        if held is not None:
            yield held.model_copy(update={"text": self._secrets.clean(held.text)})


class CallOutputs:
    """A thread that a call left behind may show more while the run is open."""

    def __init__(self, run: ActiveRun, call: ToolCallView) -> None:
        self.shown = ShownImages()
        self._run = run
        self._tool_call_id = call.tool_call_id
        self._unasked = is_unasked(call)
        self._without_secrets: _WithoutSecrets | None = None
        self.hide()
        self._index = -1
        self._ended = False
        self._late_room = _LATE_CHARACTERS
        self._late: set[asyncio.Task[None]] = set()
        # Outputs of a quick call are committed with its outcome.
        seconds = run.settings.token_flush_seconds
        self._batcher: Batcher[ToolOutputEvent] = Batcher(self._write, seconds, first=_FIRST_OUTPUT_SECONDS)

    def hide(self) -> None:
        """Show none of the secrets that are known now: all of them where nobody was asked, else typed passwords."""
        self._add_rest()
        if self._unasked or self._run.passwords:
            self._without_secrets = _WithoutSecrets(secrets_in(self._run, unasked=self._unasked))

    def add(self, output: OutputView) -> None:
        if self._without_secrets is None:
            self._add(output)
            return
        for clean in self._without_secrets.take(output):
            self._add(clean)
        if self._ended:
            self._add_rest()

    def _add_rest(self) -> None:
        if self._without_secrets is not None:
            for clean in self._without_secrets.rest():
                self._add(clean)

    def _add(self, output: OutputView) -> None:
        self._index += 1
        run_id, tool_call_id = self._run.run_id, self._tool_call_id
        event = ToolOutputEvent(run_id=run_id, tool_call_id=tool_call_id, index=self._index, output=output)
        if self._ended:
            self._add_late(event)
        else:
            self.shown.add(output)
            self._batcher.add(event)

    async def drain(self) -> list[ToolOutputEvent]:
        """Stop, and return the unwritten outputs for the commit of the outcome, which has to follow at once: what comes
        later is written after it."""
        self._add_rest()
        rest = await self._batcher.drain()
        self._add_rest()  # of what came meanwhile
        self._ended = True
        return rest

    async def aclose(self) -> None:
        self._ended = True
        await self._batcher.aclose()

    async def _write(self, outputs: list[ToolOutputEvent]) -> None:
        await self._run.emit(*outputs)

    def _add_late(self, event: ToolOutputEvent) -> None:
        run = self._run
        self._late_room -= len(event.model_dump_json())
        if run.view.status != "running" or self._late_room < 0:
            logger.info("Dropped what the call %s showed after its run", self._tool_call_id)
            return
        task = run.outside_graph(run.emit(event), f"late output of {self._tool_call_id}")
        self._late.add(task)
        task.add_done_callback(self._late_written)

    def _late_written(self, task: asyncio.Task[None]) -> None:
        self._late.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.warning("What the call %s showed late is not in the log: %s", self._tool_call_id, error)


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
