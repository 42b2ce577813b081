"""What a tool returns, as text for the model."""

import json
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

from agent_kernel.notebook.capture import OutputCapture


class ToolText(str):
    """The whole text for the model; what the call showed live is part of it and is not told twice."""


def value_text(value: Any, shell: InteractiveShell, capture: OutputCapture) -> str:
    """A string as it is, JSON where the value allows it, else its representation.

    A value with a rich display (a table, a figure) is shown to the user as an output and returns "" here: the text
    of that output is already the model's.
    """
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    formatter: Any = shell.display_formatter
    if not isinstance(value, bool | int | float | list | tuple | dict):
        data, metadata = formatter.format(value)
        if set(data) - {"text/plain"}:
            capture.display(data, metadata)
            return ""
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        return repr(value)
