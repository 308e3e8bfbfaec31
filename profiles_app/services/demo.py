"""Writes the demo: the small model and three profiles of it, so that a new installation has something to deploy."""

from typing import Any

from profiles_app.models import ModelVersion, Profile
from profiles_app.selectors.viewer import Viewer
from profiles_app.services.people import team_default
from profiles_app.services.profiles import model_version_register, profile_create

MODEL, LABEL = "SmolLM2-135M-Instruct", "q4-dequantised"
NOTE = "dequantised from Q4_1"


def demo_seed(viewer: Viewer, *, model_path: str, facts: dict[str, Any]) -> list[Profile]:
    """Store the demo model and the profiles that are not there yet. Returns the profiles made by this call."""
    version = model_version_register(
        name=MODEL,
        label=LABEL,
        source=model_path,
        licence="Apache-2.0",
        weights_dtype="bf16",
        weights_note=NOTE,
        max_context=8192,
        weights_bytes=facts.get("weights_bytes"),
        facts=facts,
    )
    team = team_default()
    known = set(Profile.objects.values_list("name", flat=True))
    return [
        profile_create(viewer, team=team, name=name, description=text, spec=spec, note="Demo profile")
        for name, text, spec in _profiles(version)
        if name not in known
    ]


def _profiles(version: ModelVersion) -> list[tuple[str, str, dict[str, Any]]]:
    model = {"name": version.model.name, "version": version.label}
    return [
        (
            "low-latency",
            "Few requests at once, short answers, first token fast",
            {
                "model": model,
                "compute": {"accelerator": "cpu", "cores": 1, "memory_gib": 4, "max_concurrency": 4},
                "batching": {"max_num_seqs": 4, "max_model_len": 2048, "kv_cache_mib": 128},
                "slo": {"ttft_p99_ms": 1000, "e2e_p99_ms": 15000},
                "quality": {"sampling": {"temperature": 0.0}, "output_cap": 256},
            },
        ),
        (
            "standard",
            "The balance for most traffic",
            {
                "model": model,
                "compute": {"accelerator": "cpu", "cores": 1, "memory_gib": 4, "max_concurrency": 16},
                "batching": {"max_num_seqs": 16, "max_model_len": 4096, "kv_cache_mib": 256},
                "slo": {"ttft_p99_ms": 3000, "e2e_p99_ms": 60000},
                "quality": {"output_cap": 1024},
            },
        ),
        (
            "high-precision",
            "Computed in fp32, deterministic sampling",
            {
                "model": model,
                "compute": {"accelerator": "cpu", "cores": 1, "memory_gib": 5, "max_concurrency": 4},
                "precision": {"weights": "fp32"},
                "batching": {"max_num_seqs": 4, "max_model_len": 4096, "kv_cache_mib": 256},
                "slo": {"ttft_p99_ms": 5000},
                "quality": {"sampling": {"temperature": 0.0}, "output_cap": 1024},
            },
        ),
    ]
