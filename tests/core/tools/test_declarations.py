"""What an author of a tool sees: a good function is offered as written, a faulty one is refused with advice."""

import datetime
import enum
import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import StructuredTool
from langchain_core.tools import Tool as TextTool
from langchain_core.tools import tool as langchain_tool
from langgraph.prebuilt import InjectedState
from pydantic import BaseModel

from agent_kernel.errors import ConfigurationError, ToolDeclarationError
from agent_kernel.tools.function import as_tool, tool
from agent_kernel.tools.registry import ToolRegistry


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Range:
    low: int
    high: int = 10


class Order(BaseModel):
    number: int
    day: datetime.date


@tool(approval="ask")
def drop_rows(table: str, where: str = "true") -> int:
    """Delete the rows of a table that match a condition.

    Args:
        table: Name of the table.
        where: A condition in
            SQL.
    """
    return len(table) + len(where)


def test_the_model_is_told_what_hints_and_docstring_say() -> None:
    declaration = as_tool(drop_rows).declaration
    assert (declaration.name, declaration.approval) == ("drop_rows", "ask")
    assert declaration.description == "Delete the rows of a table that match a condition."
    assert declaration.parameters == {
        "type": "object",
        "properties": {
            "table": {"type": "string", "description": "Name of the table."},
            "where": {"type": "string", "description": "A condition in SQL.", "default": "true"},
        },
        "required": ["table"],
        "additionalProperties": False,
    }


def test_json_arguments_arrive_as_the_hinted_types() -> None:
    def act(
        day: datetime.date, color: Color, span: Range, order: Order, kind: Literal["a", "b"], copy: int | None = None
    ) -> Any:
        """Do it."""
        return day, color, span, order, kind, copy

    made = as_tool(act)
    order = {"number": 7, "day": "2026-01-02"}
    arguments = {"day": "2026-11-20", "color": "red", "span": {"low": 1}, "order": order, "kind": "b"}
    checked = json.loads(ToolRegistry([made.declaration]).validate("act", arguments))
    own = Order(number=7, day=datetime.date(2026, 1, 2))
    assert made.call(checked) == (datetime.date(2026, 11, 20), Color.RED, Range(1, 10), own, "b", None)


def test_a_callable_approval_judges_each_call_and_an_unclear_answer_asks() -> None:
    answers: dict[str, Any] = {"temp": "allow", "odd": "maybe"}
    made = as_tool(tool(approval=lambda arguments: answers.get(arguments["table"], "deny"))(drop_rows))
    assert made.declaration.approval == "dynamic"
    assert [made.verdict({"table": name}).approval for name in ("temp", "odd", "main")] == ["allow", "ask", "deny"]


def no_hint(table) -> None:  # type: ignore[no-untyped-def]
    """Do it."""


def no_description(table: str) -> None: ...


def stars(*names: str) -> None:
    """Do it."""


def anything(table: Any) -> None:
    """Do it."""


def not_json(table: pytest.Config) -> None:
    """Do it."""


@pytest.mark.parametrize(
    ("function", "fault"),
    [
        (no_hint, "'table' has no type hint"),
        (no_description, "no description"),
        (stars, r"it takes \*names"),
        (anything, "'table' has no type"),
        (not_json, "can't be read as JSON"),
    ],
)
def test_a_faulty_tool_is_refused_by_name_with_its_fault(function: Any, fault: str) -> None:
    with pytest.raises(ToolDeclarationError, match=fault) as caught:
        as_tool(function)
    assert function.__name__ in str(caught.value)


async def test_langchain_tools_are_accepted() -> None:
    @langchain_tool
    def add(a: int, b: int = 2) -> int:
        """Add two numbers."""
        return a + b

    @langchain_tool
    async def later(a: int) -> int:
        """Add one later."""
        return a + 1

    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    from_dict = StructuredTool(name="f", description="Takes a schema.", args_schema=schema, func=lambda a: a)
    text = TextTool(name="text", description="Takes a text.", func=lambda text: f"<{text}>")

    made = as_tool(add)
    assert made.declaration.description == "Add two numbers."
    assert made.declaration.parameters["required"] == ["a"]
    assert made.call({"a": 1}) == 3
    assert await as_tool(later).call({"a": 1}) == 2
    assert as_tool(from_dict).call({"a": 4}) == 4
    assert as_tool(text).call({"tool_input": "x"}) == "<x>"


def test_a_langchain_tool_has_the_approval_that_its_user_gives_it() -> None:
    @langchain_tool
    def look(a: int, config: RunnableConfig) -> int:
        """Look at it."""
        return a

    made = as_tool(tool(look, approval="allow", read_only=True, name="look_at"))
    assert (made.declaration.name, made.declaration.approval, made.declaration.read_only) == ("look_at", "allow", True)
    assert made.call({"a": 3}) == 3
    judged = as_tool(tool(approval=lambda arguments: "deny")(look))
    assert (judged.declaration.approval, judged.verdict({"a": 1}).approval) == ("dynamic", "deny")
    with pytest.raises(ToolDeclarationError, match="its approval is 'maybe'"):
        tool(look, approval="maybe")


def test_a_langchain_tool_that_takes_what_only_langchains_agents_have_is_refused_by_that_arguments_name() -> None:
    @langchain_tool
    def with_state(a: int, state: Annotated[dict[str, Any], InjectedState]) -> int:
        """Take state."""
        return a

    @langchain_tool
    def without(a: int, state: Annotated[dict[str, Any] | None, InjectedState] = None) -> int:
        """Do without."""
        return a

    with pytest.raises(ToolDeclarationError, match=r"'state' \(InjectedState\)"):
        as_tool(with_state)
    assert as_tool(without).call({"a": 1}) == 1


@pytest.mark.parametrize("cache", [0, "yes"])
def test_a_cache_is_refused_that_is_no_time_or_of_a_tool_that_acts(cache: Any) -> None:
    with pytest.raises(ConfigurationError, match="The tool 'drop_rows' can't be cached: cache= takes True or a number"):
        tool(read_only=True, cache=cache)(drop_rows)
    with pytest.raises(ConfigurationError, match="'drop_rows' can't be cached: it is not read-only"):
        tool(cache=True)(drop_rows)
