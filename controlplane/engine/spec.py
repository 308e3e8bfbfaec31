"""The record of one engine install: what it is, how it is started, and the marker file that proves it whole."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

MARKER = "forebay-engine.json"
SCHEMA = 1

Kind = Literal["cpu", "cuda"]


@dataclass(frozen=True, kw_only=True)
class EngineSpec:
    """One engine install. `serve --config …` follows `argv_prefix`; `env` is added to the engine's environment."""

    name: str
    version: str
    kind: Kind
    python: str
    python_version: str = ""
    argv_prefix: tuple[str, ...]
    home: str
    env: Mapping[str, str] = field(default_factory=dict)
    adopted: bool = False
    created: float

    @property
    def marker(self) -> Path:
        """Where this spec lies on disk."""
        return Path(self.home) / MARKER


def write_spec(spec: EngineSpec) -> Path:
    """Write the marker atomically, as the last act of an install; returns its path."""
    partial = spec.marker.with_suffix(".partial")
    partial.write_text(json.dumps({"schema": SCHEMA, **asdict(spec)}, indent=2) + "\n")
    return partial.replace(spec.marker)


def read_spec(home: Path) -> EngineSpec | None:
    """The install in `home`, or None when there is no marker, it cannot be read, or its interpreter is gone."""
    try:
        raw: dict[str, Any] = json.loads((home / MARKER).read_text())
        if raw.pop("schema") != SCHEMA:
            return None
        spec = EngineSpec(**{**raw, "argv_prefix": tuple(raw["argv_prefix"])})
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return spec if Path(spec.python).exists() else None


def installs(engine_home: Path) -> list[EngineSpec]:
    """Every whole install under `engine_home`, the newest first."""
    if not engine_home.is_dir():
        return []
    found = [spec for child in engine_home.iterdir() if child.is_dir() and (spec := read_spec(child)) is not None]
    return sorted(found, key=lambda spec: spec.created, reverse=True)
