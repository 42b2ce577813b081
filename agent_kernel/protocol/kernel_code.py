"""Makes the code that the server, or the kernel itself, has the kernel's main thread run."""

import json
from typing import Any, Literal

OWN_CODE = '__import__("agent_kernel.notebook"'
"""The beginning of this code, by which the kernel tells it from the user's."""
CALL_KEY = "agent_kernel"
"""A key in the metadata of an `execute_request` that runs a call: the content of an `OfferCall`."""


def _own_code(name: Literal["install", "run_call"], argument: str = "") -> str:
    """A call of a function of `agent_kernel.notebook` that binds no name."""
    return f'{OWN_CODE}, fromlist=["{name}"]).{name}({argument})'


INSTALL_CODE = _own_code("install")
"""Makes a kernel answer requests although its user has not loaded the extension."""


def call_code(approval_id: str) -> str:
    """The code that runs the call in its message's metadata."""
    return f"await {_own_code('run_call', json.dumps(approval_id))}"


def without_await(code: str) -> str:
    """As `call_code`, of this code, for a kernel whose cells can't await."""
    return code.removeprefix("await ").replace("run_call", "run_call_blocking")


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
