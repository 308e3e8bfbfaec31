"""Periods, leases and grace times of the loops, in seconds, at this installation's time scale."""

from dataclasses import dataclass

from django.conf import settings


@dataclass(frozen=True, slots=True)
class Timings:
    """All of them scale together, so that tests run the same behaviour at a tenth of the time."""

    node_pass_period: float
    node_lease: float
    inventory_period: float
    deployment_pass_period: float
    deployment_lock: float
    scheduler_lease: float
    startup: float
    launch_grace: float
    drain_margin: float
    term_grace: float
    backoff_first: float
    backoff_cap: float
    port_quarantine: float
    probe_timeout: float
    liveness_failures: int


def timings() -> Timings:
    """The timings of this process's settings."""
    scale = settings.FOREBAY.time_scale
    return Timings(
        node_pass_period=2 * scale,
        node_lease=15 * scale,
        inventory_period=5 * scale,
        deployment_pass_period=2 * scale,
        deployment_lock=20 * scale,
        scheduler_lease=15 * scale,
        # The engine's own start-up gives up after 600 s (VLLM_ENGINE_READY_TIMEOUT_S); ours must be shorter. Loading a
        # model takes the time that it takes, so this one bound does not scale down.
        startup=540,
        launch_grace=40 * scale,
        drain_margin=2 * scale,
        term_grace=15 * scale,
        backoff_first=5 * scale,
        backoff_cap=300 * scale,
        # Longer than a gateway may serve from an old table (table_ttl, 30 s): a freed port meets no stale route. And
        # longer than the kernel keeps closed connections of it (60 s, TIME_WAIT), which scales with nothing.
        port_quarantine=75,
        probe_timeout=3.0,
        liveness_failures=3,
    )
