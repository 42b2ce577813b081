"""Answers of a model that are cut off, empty, or nonsense: each is a fault in words, and never half a call."""

from typing import Any

import pytest

from agent_kernel.models.service_faults import Fault, error_object_fault
from agent_kernel.testing import call, calls
from agent_kernel.testing.wire import responses
from tests.core.models.model_apis import RESPONSES, WireApi, each_api
from tests.core.models.test_answer import read


def fault_of(api: WireApi, body: bytes) -> Fault:
    with pytest.raises(Fault) as caught:
        read(api, body)
    return caught.value


@each_api
@pytest.mark.parametrize("share", [0.02, 0.3, 0.7])
def test_an_answer_that_stops_anywhere_is_cut_off(api: WireApi, share: float) -> None:
    body = api.body(calls(call("f", code="x" * 50), text="Let me look at it."))
    assert fault_of(api, body[: int(len(body) * share)]).retry


@each_api
def test_half_arguments_are_never_a_call(api: WireApi) -> None:
    half = api.half_call("f", '{"a": 1')
    assert "in the middle of a call of f" in fault_of(api, api.event_stream(half, done=False)).detail
    assert "in the middle of a call of f" in fault_of(api, api.event_stream(half, done=True)).detail
    too_long = fault_of(api, api.event_stream([*half, *api.length_reached()]))
    assert "length limit" in too_long.detail
    assert not too_long.retry


@each_api
@pytest.mark.parametrize(("status", "retry"), [(500, True), (429, True), (400, False), (None, True)])
def test_an_error_in_the_stream_is_an_error(api: WireApi, status: int | None, retry: bool) -> None:
    fault = fault_of(api, api.broken("Hel", message="Something broke", status=status))
    assert (fault.status, fault.retry) == (status, retry)
    assert fault.detail == "Something broke"


@pytest.mark.parametrize(
    ("error", "status", "retry"),
    [
        ("Something broke", None, True),
        ({"code": "429"}, 429, True),
        ({"type": "invalid_request_error", "code": None}, 400, False),
        ({"code": "content_filter"}, None, False),
        ({"type": "overloaded_error"}, 529, True),
        ({"type": "rate_limit_error"}, 429, True),
        ({"type": "timeout_error"}, 504, True),
        ({"type": "authentication_error"}, 401, False),
        ({"type": "something_new"}, None, True),
        ({"code": "rate_limit_exceeded"}, 429, True),
        ({"code": "server_is_overloaded"}, 503, True),
        ({"code": "vector_store_timeout"}, 504, True),
        ({"code": "insufficient_quota"}, 429, False),
        ({"code": "invalid_prompt"}, 400, False),
        ({"code": "context_length_exceeded"}, 400, False),
        ({"code": "bio_policy"}, 400, False),
        # The type goes before the words of the code.
        ({"code": "upstream_invalid_response", "type": "server_error"}, 500, True),
        ({"code": "upstream_invalid_response", "type": "invalid_request_error"}, 400, False),
    ],
)
def test_an_error_is_known_by_its_code_and_its_type(error: Any, status: int | None, retry: bool) -> None:
    fault = error_object_fault(error if isinstance(error, str) else {"message": "Something broke", **error})
    assert (fault.status, fault.retry, fault.detail) == (status, retry, "Something broke")


def test_a_response_that_failed_is_an_error() -> None:
    fault = fault_of(RESPONSES, RESPONSES.event_stream([responses.failed("server_error", "Sorry")]))
    assert (fault.status, fault.code, fault.detail) == (500, "server_error", "Sorry")


@each_api
@pytest.mark.parametrize("body", [b"data: {nonsense\n\n", b"data: 17\n\n", b"data: \xff\xfe\n\n"])
def test_garbage_in_the_stream_is_an_error(api: WireApi, body: bytes) -> None:
    assert fault_of(api, body).retry


@each_api
def test_a_web_page_means_a_wrong_address(api: WireApi) -> None:
    assert fault_of(api, b"\n<!doctype html><title>Sign in</title>").kind == "address"
    assert fault_of(api, b'{"status": "ok"}').kind == "address"


@each_api
@pytest.mark.parametrize("body", [b"", b"\n\n: keep-alive\n\n", b"data: [DONE]\n\n"])
def test_an_empty_answer_is_an_error(api: WireApi, body: bytes) -> None:
    assert fault_of(api, body).detail == "the server sent no answer"
