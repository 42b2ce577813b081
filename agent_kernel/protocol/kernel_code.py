"""Code that a kernel is asked to run on its main thread, by the server or by itself."""

from typing import Any, Literal

OWN_CODE = '__import__("agent_kernel.notebook"'
"""How this code begins, so that the kernel can tell it from the user's."""


def _own_code(name: Literal["install", "take", "take_async"], argument: str = "") -> str:
    """A call of a function of `agent_kernel.notebook` that leaves no name behind."""
    return f'{OWN_CODE}, fromlist=["{name}"]).{name}({argument})'


INSTALL_CODE = _own_code("install")
"""Has a kernel answer requests where nobody has loaded the extension."""


def take_code(approval_id: str, *, needs_await: bool = False) -> str:
    """Claims a deposited call."""
    return (
        f"await {_own_code('take_async', repr(approval_id))}" if needs_await else _own_code("take", repr(approval_id))
    )


def execute_request(code: str) -> dict[str, Any]:
    """The content of Jupyter's request to run code. It is silent, so that prompt numbers and `_` stay the user's."""
    return {
        "code": code,
        "silent": True,
        "store_history": False,
        "user_expressions": {},
        "allow_stdin": False,
        "stop_on_error": False,
    }
