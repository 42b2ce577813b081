"""Replaces files as a whole, so that no reader sees half of one."""

import os
import tempfile
from pathlib import Path


def replace_file(path: Path, content: bytes) -> None:
    """Write the content beside the file and rename it. Raises `OSError`; the old file is whole then."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        if path.exists():
            os.chmod(temporary, path.stat().st_mode & 0o777)  # noqa: PTH101 -- beside `os.fdopen`
        else:
            os.chmod(temporary, 0o644)  # noqa: PTH101 -- mkstemp's 0600 would keep a recording from colleagues
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
