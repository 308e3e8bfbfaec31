"""The signing key: from the environment, else made once and kept in a 0600 file of the data directory."""

import contextlib
import os
import secrets
import tempfile
from pathlib import Path


def secret_key(data_dir: Path) -> str:
    """Return FOREBAY_SECRET_KEY, or the key kept in ``data_dir``; two processes that start at once get the same."""
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    if given := os.environ.get("FOREBAY_SECRET_KEY"):
        return given
    path = data_dir / "secret.key"
    if not path.exists():
        _make(path)
    return path.read_text()


def _make(path: Path) -> None:
    """Write a key whole under a name of its own, then link it: whoever links first has made the key."""
    descriptor, name = tempfile.mkstemp(prefix="secret.key.", dir=path.parent)
    fresh = Path(name)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_urlsafe(48))
        with contextlib.suppress(FileExistsError):
            os.link(fresh, path)
    finally:
        fresh.unlink()
