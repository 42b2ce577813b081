"""`Tool`: a declaration, and the function that carries out its calls."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from agent_kernel.errors import InvalidArguments
from agent_kernel.protocol.calls import ToolVerdict
from agent_kernel.protocol.vocabulary import Approval
from agent_kernel.tools.declaration import ToolDeclaration

ApprovalFunction = Callable[[dict[str, Any]], Approval]
"""Says whether a call may run, from its arguments as the model sent them."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool of a run, as the executor has it."""

    declaration: ToolDeclaration
    function: Callable[..., Any]
    approval: ApprovalFunction | None = None
    """Asked about each call if the declared approval is `dynamic`."""
    arguments: type[BaseModel] | None = None
    """Coerces JSON to the hinted types; `None` if the function takes JSON values unchanged."""
    builtin_verdict: Callable[[dict[str, Any]], ToolVerdict] | None = None
    """For built-in tools, in place of `approval`: the verdict with the resolved place."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def call(self, arguments: dict[str, Any]) -> Any:
        """Call the function with JSON values coerced to its type hints. Returns a coroutine if it is asynchronous.

        Raises `InvalidArguments` for a value that does not fit, and whatever the function raises.
        """
        if self.arguments is None:
            return self.function(**arguments)
        try:
            values = self.arguments.model_validate(arguments)
        except ValidationError as error:
            raise InvalidArguments(faults_of(error)) from None
        given = values.model_fields_set
        fields = type(values).model_fields
        return self.function(**{str(f.alias): getattr(values, key) for key, f in fields.items() if key in given})

    def verdict(self, arguments: dict[str, Any]) -> ToolVerdict:
        """The tool's own verdict on a call. Any answer but `ask`, `allow` or `deny` counts as `ask`."""
        if self.builtin_verdict is not None:
            return self.builtin_verdict(arguments)
        if self.declaration.approval != "dynamic":
            return ToolVerdict(self.declaration.approval)
        answer = self.approval(arguments) if self.approval is not None else "ask"
        return ToolVerdict(answer if answer in get_args(Approval) else "ask")


def faults_of(error: ValidationError) -> str:
    """The first faults in one line, each with its field, without the values."""
    shown = error.errors(include_url=False, include_context=False, include_input=False)
    lines = [f"{'.'.join(map(str, fault['loc'])) or 'arguments'}: {fault['msg']}"[:300] for fault in shown[:3]]
    return "; ".join(lines)
