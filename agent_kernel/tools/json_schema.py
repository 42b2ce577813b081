"""What is used of jsonschema, without a second of its import.

jsonschema imports `rfc3987_syntax` where that is installed (jupyter-events asks for it), which builds a grammar of
IRIs. Here the grammar is built when the first IRI is checked, by whomever.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

_GRAMMAR = "rfc3987_syntax"


def _is_valid_syntax(rule: str, text: str) -> bool:
    from rfc3987_syntax import is_valid_syntax  # type: ignore[import-untyped]  # it has no types

    return bool(is_valid_syntax(rule, text))


@contextmanager
def _grammar_later() -> Iterator[None]:
    """Let jsonschema import a function that imports the grammar when it is called."""
    if _GRAMMAR in sys.modules or find_spec(_GRAMMAR) is None:
        yield
        return
    modules: dict[str, Any] = sys.modules
    modules[_GRAMMAR] = SimpleNamespace(is_valid_syntax=_is_valid_syntax)
    try:
        yield
    finally:
        del modules[_GRAMMAR]


with _grammar_later():
    from jsonschema import Draft202012Validator, FormatChecker
    from jsonschema.exceptions import SchemaError, ValidationError
    from jsonschema.validators import extend

__all__ = ["Draft202012Validator", "FormatChecker", "SchemaError", "ValidationError", "extend"]
