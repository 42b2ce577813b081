"""Notebooks as files, before anything of them is run."""

from pathlib import Path

import nbformat
from nbformat.reader import NotJSONError


def fault_of(notebook: Path) -> str:
    """Why a file can't be run; "" if it can."""
    try:
        nbformat.validate(nbformat.read(notebook, as_version=4))
    except FileNotFoundError:
        return f"There is no notebook {notebook}."
    except (OSError, UnicodeDecodeError) as error:
        return f"{notebook} can't be read: {error}"
    except (NotJSONError, AttributeError, KeyError, TypeError, nbformat.ValidationError) as error:
        # Half a file, for example: nbformat says at length what it found instead.
        return f"{notebook} is no notebook, or was not saved whole: {str(error)[:200]}"
    return ""
