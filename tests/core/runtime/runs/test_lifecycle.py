"""The beginning of a run."""

from agent_kernel.runtime.runs.lifecycle import BROKEN
from agent_kernel.testing import ScriptedModel, say
from tests.core.runtime.runtime_fixtures import Stages


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
