"""The beginning of a run."""

import threading

from agent_kernel.approvals.folder_limits import NO_LIMITS, FolderLimits
from agent_kernel.protocol.kernel import EnvironmentDescribed
from agent_kernel.runtime.runs.lifecycle import BROKEN
from agent_kernel.testing import ScriptedModel, say
from tests.core.runtime.runtime_fixtures import FunctionExecutor, Stages


async def test_the_notebook_is_described_while_the_model_and_the_folder_are_looked_for(stages: Stages) -> None:
    """The kernel's answer takes longest, and does not depend on what the host has to look for."""
    asked = threading.Event()

    class Described(FunctionExecutor):
        async def describe_environment(self) -> EnvironmentDescribed:
            asked.set()
            return EnvironmentDescribed(text="You work in the notebook a.ipynb.")

    def limits(_path: str | None) -> FolderLimits:
        assert asked.wait(10)
        return NO_LIMITS

    with ScriptedModel([say("Done.")]) as model:
        stage = await stages(model, executor=Described(), read_limits=limits)
        assert (await (await stage.start()).wait()).run.status == "complete"
        assert "You work in the notebook a.ipynb." in str(model.requests)


async def test_a_run_that_a_fault_keeps_from_beginning_ends_in_it_and_the_next_one_begins(stages: Stages) -> None:
    class HalfLoaded(ScriptedModel):
        faults = 1

        async def learn(self) -> None:
            if self.faults:
                self.faults = 0
                raise AttributeError("partially initialized module")

    with HalfLoaded([say("Done.")]) as model:
        stage = await stages(model)
        failed = (await (await stage.start()).wait()).run
        assert failed.error is not None
        assert (failed.status, failed.error.code, failed.error.message) == ("error", "INTERNAL_ERROR", BROKEN)
        assert (await (await stage.start("Again")).wait()).text == "Done."
