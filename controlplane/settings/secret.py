"""The signing key: from the environment, else made once and kept in a 0600 file of the data directory."""

import os
import secrets
from pathlib import Path


def secret_key(data_dir: Path) -> str:
    """Return FOREBAY_SECRET_KEY, or the key kept in ``data_dir``; two processes that start at once get the same."""
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    if given := os.environ.get("FOREBAY_SECRET_KEY"):
        return given
    path = data_dir / "secret.key"
    fresh = data_dir / f"secret.key.{os.getpid()}"
    if not path.exists():
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_urlsafe(48))
        try:
            os.link(fresh, path)
        except FileExistsError:
            pass
        finally:
            fresh.unlink()
    return path.read_text()
