"""An answer has a size, whatever a service sends: beyond it the turn ends in words, and memory stays what it was."""

import gzip
import zlib
from pathlib import Path

import pytest

from agent_kernel.models import answer_reading
from agent_kernel.models.answer_reading import MOST_PARTS
from agent_kernel.testing import call, calls
from agent_kernel.testing.wire.reply import Reply
from tests.core.models.model_apis import WireApi, any_api, each_api, said
from tests.core.models.model_fixtures import TURN, collect, connected, error_of, turn_of
from tests.core.models.test_answer import read_turn
from tests.core.models.test_answer_faults import fault_of

MOST_MB = 64


class Memory:
    """The resident set of this process, and how far it has grown at most."""

    def __init__(self) -> None:
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        self._before = self._read("VmRSS")

    @staticmethod
    def _read(name: str) -> float:
        line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
        return int(line.split()[1]) / 1024

    def grown_mb(self) -> float:
        return self._read("VmHWM") - self._before


def bomb(piece: bytes, times: int) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    return b"".join([*(packer.compress(piece) for _ in range(times)), packer.flush()])


@any_api
@pytest.mark.parametrize("packing", ["gzip", "x-gzip", "deflate"])
async def test_a_packed_answer_is_read(api: WireApi, packing: str) -> None:
    body = api.body(TURN)
    packed = zlib.compress(body) if packing == "deflate" else gzip.compress(body[:90]) + gzip.compress(body[90:])
    reply = Reply(body=packed, headers={"Content-Encoding": packing}, split_every=7)
    async with connected(reply, api=api) as (server, model):
        assert said(await turn_of(model)) == TURN
        assert server.requests[0].headers["accept-encoding"] == "gzip, deflate"


@any_api
@pytest.mark.parametrize("piece", [b": " + b"a" * 1_000_000 + b"\n\n", b"data: " + b"a" * 1_000_000])
async def test_a_small_packed_answer_never_becomes_a_large_one(api: WireApi, piece: bytes) -> None:
    packed = bomb(piece, 160)
    assert len(packed) < 600_000
    reply = Reply(body=packed, headers={"Content-Encoding": "gzip"})
    async with connected(reply, api=api) as (_, model):
        memory = Memory()
        with pytest.raises(Exception, match=r"does not end|single piece of more than"):
            await collect(model)
        assert memory.grown_mb() < MOST_MB


@pytest.mark.parametrize("status", [200, 401, 500])
async def test_a_refusal_has_a_size_as_well(status: int) -> None:
    reply = Reply(
        body=bomb(b'{"error": "' + b"a" * 1_000_000, 100), status=status, headers={"Content-Encoding": "gzip"}
    )
    memory = Memory()
    assert "longer than" in str(await error_of(reply)) or status == 200
    assert memory.grown_mb() < MOST_MB


@pytest.fixture
def smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    """The doubles take long for millions of characters."""
    monkeypatch.setattr(answer_reading, "MOST_CHARACTERS", 100_000)


@each_api
@pytest.mark.parametrize("pieces", [["a" * 30_000] * 5, ["a" * 1_000] * 101])
def test_a_text_without_end_is_ended(api: WireApi, pieces: list[str], smaller: None) -> None:
    assert "characters" in fault_of(api, api.saying(*pieces)).detail


@each_api
def test_arguments_without_end_are_ended(api: WireApi, smaller: None) -> None:
    assert "characters" in fault_of(api, api.body(calls(call("f", code="x" * 100_001)))).detail


@each_api
def test_more_calls_than_anybody_looks_at_are_ended(api: WireApi) -> None:
    many = calls(*(call("f", call_id=f"c{number}") for number in range(MOST_PARTS + 1)))
    assert "parts" in fault_of(api, api.body(many)).detail
    fewer = calls(*(call("f", call_id=f"c{number}") for number in range(300)))
    assert len(read_turn(api, api.body(fewer)).tool_calls) == 300
