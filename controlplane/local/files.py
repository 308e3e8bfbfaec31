"""Small records on disk: written whole or not at all, and read without surprises."""

import json
import os
from pathlib import Path
from typing import Any


def write_json(path: Path, value: object) -> None:
    """Replace `path` in one step; a reader sees the old or the new text, never half of one. Mode 0600."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as handle:
        json.dump(value, handle, indent=1)
    partial.replace(path)


def read_json(path: Path) -> dict[str, Any] | None:
    """The object in a record; None when it is missing or no JSON object."""
    try:
        value = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None
