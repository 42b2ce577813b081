"""Answers of a model that are cut off, empty, or nonsense: each is a fault in words, and never half a call."""

import pytest

from agent_kernel.models.service_faults import Fault
from agent_kernel.testing import call, calls
from tests.core.models.model_apis import WireApi, each_api
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


@each_api
@pytest.mark.parametrize("body", [b"", b"\n\n: keep-alive\n\n", b"data: [DONE]\n\n"])
def test_an_empty_answer_is_an_error(api: WireApi, body: bytes) -> None:
    assert fault_of(api, body).detail == "the server sent no answer"


@each_api
@pytest.mark.parametrize("body", [b"data: {nonsense\n\n", b"data: 17\n\n", b"data: \xff\xfe\n\n"])
def test_garbage_in_the_stream_is_an_error(api: WireApi, body: bytes) -> None:
    assert fault_of(api, body).retry


@each_api
def test_a_web_page_means_a_wrong_address(api: WireApi) -> None:
    assert fault_of(api, b"\n<!doctype html><title>Sign in</title>").kind == "address"
    assert fault_of(api, b'{"status": "ok"}').kind == "address"
