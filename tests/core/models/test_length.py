"""A request that is too long is told from other refusals by what its service says."""

import json

import pytest

from agent_kernel.errors import ContextExceeded, ModelRefused
from agent_kernel.models.length import TooLong, too_long
from agent_kernel.testing import VirtualClock
from agent_kernel.testing.wire.chat import events
from agent_kernel.testing.wire.reply import Reply, failure
from tests.core.models.model_fixtures import connected, error_of, turn_of

SAID = {
    "This model's maximum context length is 128000 tokens. However, your messages resulted in 130172 tokens. Please "
    "reduce the length of the messages.": (130_172, 128_000),
    "Your input exceeds the context window of this model. Please adjust your input and try again.": (None, None),
    "prompt is too long: 209353 tokens > 199999 maximum": (209_353, 199_999),
    "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length or "
    "`max_tokens` and try again": (None, 200_000),
    "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (3000 in the messages, "
    "2000 in the completion).": (5_000, 4_096),
    "request (5120 tokens) exceeds the available context size (4096 tokens), try increasing it": (5_120, 4_096),
    "the request exceeds the available context size. try increasing the context size": (None, None),
    "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).": (1_200_000, 1_048_576),
    "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length": (
        40_000,
        32_768,
    ),
    "This model's maximum prompt length is 131072 but the request contains 537812 tokens.": (537_812, 131_072),
    "Trying to keep the first 6000 tokens when context the overflows. However, the model is loaded with context length "
    "of only 4096 tokens, which is not enough.": (None, 4_096),
    "This endpoint's maximum context length is 131,072 tokens. However, you requested about 150,000 tokens.": (
        150_000,
        131_072,
    ),
    "Requested token count exceeds the model's maximum context length of 202752 tokens. You requested a total of "
    "202941 tokens.": (202_941, 202_752),
    "Input length (265330) exceeds model's maximum context length (262144).": (265_330, 262_144),
    "Prompt too long: 5152 tokens exceeds max_seq_len 2048": (5_152, 2_048),
    "Input is too long for requested model.": (None, None),
    "Your request exceeded model token limit: 262144 (requested: 300000)": (None, 262_144),
    "Requested tokens (5234) exceed context window of 4096": (5_234, 4_096),
}
OTHERWISE = (
    "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 35000.",
    "You exceeded your current quota.",
    "Invalid value for max_tokens.",
    "The model does not exist.",
    "",
)


@pytest.mark.parametrize("said", SAID)
def test_what_services_say_of_a_request_that_is_too_long_is_understood(said: str) -> None:
    size, limit = SAID[said]
    assert too_long(400, "", said, structured=True) == TooLong(size=size, limit=limit)


@pytest.mark.parametrize("said", OTHERWISE)
def test_other_refusals_are_not_taken_for_one(said: str) -> None:
    assert too_long(400, "", said, structured=True) is None
    assert too_long(401, "", "The context window is not for this key.", structured=True) is None


def test_a_megabyte_that_is_no_error_message_is_read_in_no_time() -> None:
    assert too_long(400, "", "1" * 1_000_000, structured=True) is None


async def test_a_user_is_told_what_to_do_and_nothing_is_tried_again() -> None:
    clock = VirtualClock()
    body = {"error": {"code": 400, "message": "too big", "type": "exceed_context_size_error", "n_ctx": 4096}}
    reply = Reply(json.dumps(body).encode(), status=500, content_type="application/json")
    error = await error_of(reply, clock=clock)
    assert isinstance(error, ContextExceeded)
    assert isinstance(error, ModelRefused)
    assert clock.slept == []
    assert "is too long for" in str(error)
    assert "--tools" in str(error)
    assert "OLLAMA_CONTEXT_LENGTH" in str(error)


async def test_an_error_within_the_stream_counts_as_well() -> None:
    said = {"message": "Too many.", "type": "invalid_request_error", "code": "context_length_exceeded"}
    assert isinstance(await error_of(events({"error": said})), ContextExceeded)


async def test_the_limit_that_a_service_names_is_remembered() -> None:
    refusal = failure(400, "prompt is too long: 9000 tokens > 8192 maximum")
    async with connected(refusal) as (_, model):
        assert model.facts.context_tokens is None
        with pytest.raises(ContextExceeded) as raised:
            await turn_of(model)
        assert (raised.value.size, raised.value.limit) == (9_000, 8_192)
        assert model.facts.context_tokens == 8_192
