"""Identity and difference of specs: the hash of a revision, and what changed between two."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


def spec_hash(data: Mapping[str, Any]) -> str:
    """SHA-256 (hex) of the spec's canonical JSON: keys sorted, no spaces. Equal specs have equal hashes."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Change:
    """One field that differs. ``None`` on a side means that the field is absent or empty there."""

    path: str
    old: Any
    new: Any


def diff(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[Change, ...]:
    """Fields whose values differ, by dotted path, in alphabetical order."""
    before, after = dict(_flatten(old)), dict(_flatten(new))
    paths = sorted(before.keys() | after.keys())
    return tuple(
        Change(path, before.get(path), after.get(path)) for path in paths if before.get(path) != after.get(path)
    )


def _flatten(data: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in data.items():
        path = f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{path}.")
        else:
            yield path, value
