"""Where the command line finds Forebay and the token to use: the environment, else what `forebay login` kept."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from controlplane.local.files import write_json

DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", "8300"


@dataclass(frozen=True, slots=True)
class Login:
    """An address and, if there is one, the token that opens it."""

    url: str
    token: str | None


def config_path(environ: Mapping[str, str]) -> Path:
    """The file that keeps the login: $XDG_CONFIG_HOME/forebay/config.json."""
    base = environ.get("XDG_CONFIG_HOME") or str(Path(environ.get("HOME") or Path.home()) / ".config")
    return Path(base) / "forebay" / "config.json"


def read_login(environ: Mapping[str, str]) -> Login:
    """FOREBAY_URL and FOREBAY_TOKEN win. A kept token is sent only to the address that it was kept for."""
    kept = _read(config_path(environ))
    url = (environ.get("FOREBAY_URL") or kept.get("url") or _local_url(environ)).rstrip("/")
    token = environ.get("FOREBAY_TOKEN") or (kept.get("token") if kept.get("url") == url else None)
    return Login(url=url, token=token)


def _local_url(environ: Mapping[str, str]) -> str:
    """Where `forebay up` listens in this environment."""
    host = environ.get("FOREBAY_HOST") or DEFAULT_HOST
    return f"http://{host}:{environ.get('FOREBAY_PORT') or DEFAULT_PORT}"


def _read(path: Path) -> dict[str, str]:
    try:
        data = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    if not isinstance(data, dict):
        return {}
    return {name: value for name, value in data.items() if isinstance(value, str)}


def keep_login(environ: Mapping[str, str], login: Login) -> Path:
    """Keep the login in a file that only this user can read. Returns its path."""
    path = config_path(environ)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_json(path, {"url": login.url, "token": login.token})
    return path


def environment() -> Mapping[str, str]:
    """The process's environment, read when a command runs."""
    return os.environ
