"""The server and the kernel speak one vocabulary, which only `agent_kernel.protocol` writes down."""

import ast
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from agent_kernel.protocol import kernel_topics
from agent_kernel.protocol.first_prompt import Done, FirstMessage, FirstRequest, RunAnnounced
from agent_kernel.protocol.kernel import AnyRequest, Reply
from agent_kernel.protocol.kernel_questions import AnyQuestion, KernelEvent

ROOT = Path(__file__).parents[2]
SERVER = ROOT / "extension" / "agent_kernel_server"
EXECUTION = ROOT / "agent_kernel" / "execution"
KERNEL = ROOT / "agent_kernel" / "notebook"
REQUESTS: tuple[type[Any], ...] = get_args(FirstRequest | AnyRequest)
EVENTS: tuple[type[Any], ...] = get_args(KernelEvent)
QUESTIONS: tuple[type[BaseModel], ...] = get_args(AnyQuestion)


def trees(folder: Path) -> Iterator[ast.AST]:
    for path in sorted(folder.rglob("*.py")):
        yield ast.parse(path.read_text(encoding="utf-8"))


def made(folder: Path) -> set[str]:
    """The names that are called somewhere."""
    calls = (node.func for tree in trees(folder) for node in ast.walk(tree) if isinstance(node, ast.Call))
    return {function.id for function in calls if isinstance(function, ast.Name)}


def matched(folder: Path) -> set[str]:
    """The classes that are told apart in a `match`."""
    cases = (node.cls for tree in trees(folder) for node in ast.walk(tree) if isinstance(node, ast.MatchClass))
    return {case.id for case in cases if isinstance(case, ast.Name)}


def names(models: tuple[type[Any], ...]) -> set[str]:
    return {model.__name__ for model in models}


def fields_of(message: type[Any]) -> dict[str, Any]:
    """Of a model or a dataclass, by their names."""
    return {one.name: one for one in fields(message)} if is_dataclass(message) else message.model_fields


def tag(message: type[Any], field: str) -> str:
    value: str = fields_of(message)[field].default
    return value


def test_each_request_that_the_server_sends_is_answered_in_the_kernel_and_the_other_way_round() -> None:
    assert names(REQUESTS) & (made(SERVER) | made(EXECUTION)) == names(REQUESTS)
    assert names(REQUESTS) & matched(KERNEL) == names(REQUESTS)


def test_each_event_that_a_kernel_sends_is_handled_at_the_server_and_the_other_way_round() -> None:
    assert names(EVENTS) & made(KERNEL) == names(EVENTS)
    assert names(EVENTS) & matched(SERVER) == names(EVENTS)


def test_all_messages_can_be_told_apart_by_their_tags() -> None:
    ops = [tag(request, "op") for request in REQUESTS]
    events = [tag(event, "event") for event in EVENTS if event not in QUESTIONS]
    topics = [tag(question, "topic") for question in QUESTIONS]
    assert len(set(ops)) == len(ops)
    assert len({*events, "ask"}) == len(events) + 1
    assert len(set(topics)) == len(topics)


def test_each_request_names_the_type_of_its_reply_and_each_question_that_of_its_answer() -> None:
    assert all(issubclass(request.reply_type(), Reply | Done) for request in get_args(AnyRequest))
    assert all(request.reply_type() in get_args(FirstMessage) for request in get_args(FirstRequest))
    assert all(issubclass(question.answer_type(), BaseModel) for question in get_args(AnyQuestion))


def test_what_an_announcement_leaves_out_is_what_the_server_adds() -> None:
    optional = [field for field in fields(RunAnnounced) if type(None) in get_args(field.type)]
    assert [field.default for field in optional] == [None, None]


@pytest.mark.parametrize("folder", [SERVER / "kernels", KERNEL], ids=["server", "kernel"])
def test_neither_end_writes_the_words_of_the_wire_by_hand(folder: Path) -> None:
    words = {
        kernel_topics.REQUEST_TYPE,
        kernel_topics.REPLY_TYPE,
        kernel_topics.EVENT_TYPE,
        kernel_topics.EVENT_TOPIC,
        *(field for model in (*REQUESTS, *EVENTS) for field in fields_of(model) if "_" in field),
    }
    usual = {"run_id", "conversation_id", "cell_id", "tool_name", "tool_call_id", "approval_id", "notebook_path"}
    written = {
        node.value
        for tree in trees(folder)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
    }
    assert written & (words - usual) == set()
