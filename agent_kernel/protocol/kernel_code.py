"""Makes the code that the server, or the kernel itself, has the kernel's main thread run."""

from typing import Any, Literal

OWN_CODE = '__import__("agent_kernel.notebook"'
"""The beginning of this code, by which the kernel tells it from the user's."""


def _own_code(name: Literal["install", "take", "take_async"], argument: str = "") -> str:
    """A call of a function of `agent_kernel.notebook` that binds no name."""
    return f'{OWN_CODE}, fromlist=["{name}"]).{name}({argument})'


INSTALL_CODE = _own_code("install")
"""Makes a kernel answer requests although its user has not loaded the extension."""


def take_code(approval_id: str, *, needs_await: bool) -> str:
    """The code that claims a deposited call."""
    if needs_await:
        return f"await {_own_code('take_async', repr(approval_id))}"
    return _own_code("take", repr(approval_id))


def takes_call(code: object) -> bool:
    """Whether code, which may be a user's, is that of `take_code`."""
    return isinstance(code, str) and code.removeprefix("await ").startswith(f'{OWN_CODE}, fromlist=["take')


def execute_request(code: str) -> dict[str, Any]:
    """The content of an `execute_request`. It is silent, so that execution counts and `_` stay the user's."""
    return {
        "code": code,
        "silent": True,
        "store_history": False,
        "user_expressions": {},
        "allow_stdin": False,
        "stop_on_error": False,
    }
