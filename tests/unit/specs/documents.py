"""Specs as data, for the tests of specs: the smallest valid ones, and changes by dotted path."""

import copy
from collections.abc import Mapping
from typing import Any

from profiles_app.specs.schema import Spec, parse


def cpu_data(**changes: Any) -> dict[str, Any]:
    """A valid CPU spec with ``changes``: keys are dotted paths with `__` for the dot."""
    data: dict[str, Any] = {
        "model": {"name": "tiny", "version": "1"},
        "batching": {"kv_cache_mib": 128},
    }
    return changed(data, {path.replace("__", "."): value for path, value in changes.items()})


def gpu_data(**changes: Any) -> dict[str, Any]:
    """A valid spec of two GPUs by tensor parallelism, with ``changes``."""
    data: dict[str, Any] = {
        "model": {"name": "tiny", "version": "1"},
        "compute": {"accelerator": "gpu", "accelerators": 2, "tensor_parallel": 2},
    }
    return changed(data, {path.replace("__", "."): value for path, value in changes.items()})


def changed(data: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A deep copy of ``data`` with the values at dotted paths replaced."""
    result = copy.deepcopy(dict(data))
    for path, value in changes.items():
        *parents, leaf = path.split(".")
        part = result
        for name in parents:
            part = part.setdefault(name, {})
        part[leaf] = value
    return result


def spec_from(data: Mapping[str, Any]) -> Spec:
    """The spec of data that must be valid."""
    spec, problems = parse(data)
    assert spec is not None, problems
    return spec
