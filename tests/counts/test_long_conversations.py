"""How long a request is, is known without measuring the whole conversation at each step."""

import cProfile
import pstats
from dataclasses import replace
from pathlib import Path

import pytest

from agent_kernel.models.base import TokenUsage, WireMessage
from agent_kernel.runtime.state.transcript import Transcript
from tests.counts.counting import CountedModel, CountedRuntime


class Roomy(CountedModel):
    facts = replace(CountedModel.facts, context_tokens=1_000_000)


class Counting(Roomy):
    """Of a service that counts its tokens. Where one does not, each answer is measured by itself as well."""

    usage = TokenUsage(input_tokens=1000, output_tokens=10)


async def measured(counted: CountedRuntime) -> int:
    """How many messages are measured in the next run."""
    profile = cProfile.Profile()
    profile.enable()
    await counted.run()
    profile.disable()
    calls = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    return sum(
        count for (file, _, name), (_, count, *_) in calls.items() if name == "tokens_of" and "compaction" in file
    )


@pytest.mark.parametrize(("model", "most"), [(Counting(calls=10), 24), (Roomy(calls=10), 24 + 11)])
async def test_a_message_is_measured_once_however_long_the_conversation_is(
    tmp_path: Path, model: Roomy, most: int
) -> None:
    counted = await CountedRuntime.open(tmp_path / "log.sqlite", model)
    assert await measured(counted) <= most
    for _ in range(5):
        await counted.run()
    assert 22 <= await measured(counted) <= most
    await counted.runtime.aclose()


async def test_a_run_that_needs_no_shortening_costs_no_statement_more(tmp_path: Path) -> None:
    counts = []
    for model in (CountedModel(calls=5), Roomy(calls=5)):
        counted = await CountedRuntime.open(tmp_path / f"{len(counts)}.sqlite", model)
        await counted.run()
        counted.clear()
        await counted.run()
        counts.append(counted.count())
        assert not [statement for statement in counted.sql if "compactions" in statement]
        await counted.runtime.aclose()
    assert counts[0] == counts[1]


async def looked_at(counted: CountedRuntime, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many messages the transcript looks at in the next run, on the log's thread and in the event loop."""
    seen = 0
    note = Transcript._note

    def counting(self: Transcript, message: WireMessage) -> None:
        nonlocal seen
        seen += 1
        note(self, message)

    with monkeypatch.context() as patch:
        patch.setattr(Transcript, "_note", counting)
        await counted.run()
    return seen


async def test_a_run_looks_at_its_own_messages_only_however_long_the_conversation_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = CountedModel(calls=1)
    counted = await CountedRuntime.open(tmp_path / "log.sqlite", model)
    early = await looked_at(counted, monkeypatch)
    for _ in range(10):
        await counted.run()
    assert await looked_at(counted, monkeypatch) == early == 4
    await counted.runtime.aclose()
