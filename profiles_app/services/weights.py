"""Writes model versions that an administrator registers: a folder on the nodes, or a repository id."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.db import transaction

from profiles_app.errors import DomainError
from profiles_app.models import ModelVersion
from profiles_app.selectors.viewer import Viewer
from profiles_app.services.audit import audit_record
from profiles_app.services.profiles import model_version_register

REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}\Z")
DTYPES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}
WEIGHT_FILES = ("*.safetensors", "*.bin", "*.gguf")


def model_version_add(
    viewer: Viewer,
    *,
    name: str,
    label: str,
    source: str,
    licence: str = "",
    weights_dtype: str | None = None,
    weights_note: str = "",
    max_context: int | None = None,
    weights_bytes: int | None = None,
) -> ModelVersion:
    """Register a model version. What is not given is read from the folder's config.json, where this host has it.

    Raises ForbiddenError, and DomainError for a bad source or a label that stands for other weights already.
    """
    viewer.require_somewhere("admin")
    _check_source(source)
    if ModelVersion.objects.filter(model__name=name, label=label).exclude(source=source).exists():
        raise DomainError(
            "version_taken", f"{name}@{label} is stored with another source; choose another version.", field="version"
        )
    found = read_weights(Path(source)) if source.startswith("/") else {}
    with transaction.atomic():
        row = model_version_register(
            name=name,
            label=label,
            source=source,
            licence=licence,
            weights_dtype=weights_dtype or found.get("weights_dtype", "bf16"),
            weights_note=weights_note,
            max_context=max_context or found.get("max_context"),
            weights_bytes=weights_bytes or found.get("weights_bytes"),
            facts=found,
        )
        audit_record(viewer, team=None, action="model.register", target=f"{name}@{label}", source=source)
    return row


def _check_source(source: str) -> None:
    if source.startswith("/") and source.isprintable() and ".." not in Path(source).parts:
        return
    if REPOSITORY.match(source) is None:
        raise DomainError(
            "invalid_source",
            "The source is the absolute path of a folder on the nodes, or a repository id such as owner/name.",
            status=422,
            field="source",
        )


def read_weights(folder: Path) -> dict[str, Any]:
    """Facts of a model folder: weights_dtype, max_context, weights_bytes. Empty where this host has no such folder."""
    try:
        config = json.loads((folder / "config.json").read_text())
    except (OSError, ValueError):
        return {}
    if not isinstance(config, Mapping):
        return {}
    size = sum(file.stat().st_size for pattern in WEIGHT_FILES for file in folder.glob(pattern))
    context = config.get("max_position_embeddings")
    facts = {
        "weights_dtype": DTYPES.get(str(config.get("dtype") or config.get("torch_dtype"))),
        "max_context": context if isinstance(context, int) else None,
        "weights_bytes": size or None,
    }
    return {name: value for name, value in facts.items() if value is not None}
