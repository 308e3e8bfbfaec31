"""Rows for tests, made through the product's own services where there is one."""

import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.contrib.auth import get_user_model

from profiles_app.hardware.base import DeviceReading, HostReading
from profiles_app.models import Deployment, EngineInstall, ModelVersion, Node, Profile, Replica, Revision, Team
from profiles_app.selectors import Viewer, system_viewer, viewer_for
from profiles_app.services.deployments import deployment_deploy
from profiles_app.services.nodes import engine_register, node_join, node_lease_renew, node_reported
from profiles_app.services.people import membership_set
from profiles_app.services.profiles import model_version_register, profile_create
from profiles_app.services.replicas import replica_create, replica_place

GIB = 2**30
NOW = datetime(2026, 11, 1, 12, 0, tzinfo=UTC)
FAKE_ENGINE = Path(__file__).parent / "fakes" / "fake_engine.py"


@dataclass(frozen=True, slots=True)
class Wakeup:
    """One hint as Celery was given it."""

    task: str
    args: tuple[object, ...] = ()
    queue: str = "control"


def make_team(slug: str = "default") -> Team:
    """A team by its slug."""
    return Team.objects.get_or_create(slug=slug, defaults={"name": slug.title()})[0]


def make_user(username: str, **roles: str) -> Any:
    """A user with a role in each named team."""
    user = get_user_model().objects.create_user(username=username, password="a long enough password")
    for slug, role in roles.items():
        membership_set(user=user, team=make_team(slug), role=role)
    return user


def make_viewer(username: str = "olga", **roles: str) -> Viewer:
    """A viewer with a stored user; an operator of the default team unless roles are given."""
    return viewer_for(make_user(username, **(roles or {"default": "operator"})))


def make_model(name: str = "tiny", label: str = "1", **facts: Any) -> ModelVersion:
    """A stored model version with 8192 positions."""
    return model_version_register(name=name, label=label, source=f"models/{name}", **{"max_context": 8192, **facts})


def cpu_spec(**parts: dict[str, Any]) -> dict[str, Any]:
    """A small CPU spec of the model that `make_model` stores, with the fields of ``parts`` changed."""
    base: dict[str, dict[str, Any]] = {
        "model": {"name": "tiny", "version": "1"},
        "compute": {"accelerator": "cpu", "cores": 1, "memory_gib": 1, "max_concurrency": 4},
        "batching": {"max_num_seqs": 4, "max_model_len": 2048, "kv_cache_mib": 16},
    }
    return {name: base.get(name, {}) | parts.get(name, {}) for name in base.keys() | parts.keys()}


def gpu_spec(count: int) -> dict[str, Any]:
    """A spec of ``count`` GPUs a replica."""
    compute = {"accelerator": "gpu", "accelerators": count, "tensor_parallel": count}
    return {"model": {"name": "tiny", "version": "1"}, "compute": compute}


def make_profile(name: str = "fast", *, team: str = "default", spec: dict[str, Any] | None = None) -> Profile:
    """A profile with its first revision."""
    make_model()
    return profile_create(system_viewer(), team=make_team(team), name=name, spec=spec or cpu_spec())


def first_revision(profile: Profile) -> Revision:
    """Revision 1 of the profile."""
    return profile.revisions.get(number=1)


def make_deployment(
    profile: Profile | None = None, *, replicas: int = 1, now: datetime = NOW, **kwargs: Any
) -> Deployment:
    """A deployment of the profile's first revision."""
    profile = profile or make_profile()
    return deployment_deploy(
        system_viewer(), profile=profile, revision=first_revision(profile), replicas=replicas, now=now, **kwargs
    )


def make_node(name: str = "node-a", *, cores: int = 8, gpus: int = 0, now: datetime = NOW, lease: float = 3600) -> Node:
    """A node with a live lease, its hardware reported."""
    node = node_join(name, now=now)
    node_lease_renew(name, seconds=lease, now=now)
    reading = HostReading(
        kind="gpu" if gpus else "cpu",
        cores=cores,
        memory_total_bytes=32 * GIB,
        memory_available_bytes=30 * GIB,
        boot_id="boot",
        devices=tuple(make_device(f"{name}-gpu-{index}", index) for index in range(gpus)),
        problems=(),
    )
    node_reported(name, reading=reading, now=now)
    node.refresh_from_db()
    return node


def make_device(uuid: str, index: int, **changes: Any) -> DeviceReading:
    """A reading of an unused 80 GiB GPU, with ``changes``."""
    values: dict[str, Any] = {
        "uuid": uuid,
        "index": index,
        "name": "Test GPU",
        "memory_total_bytes": 80 * GIB,
        "memory_used_bytes": 0,
        "memory_free_bytes": 80 * GIB,
        "utilization": None,
        "power_watts": None,
        "power_limit_watts": None,
        "temperature_c": None,
        "compute_capability": "9.0",
        "mig_mode": None,
        "processes": (),
    }
    return DeviceReading(**values | changes)


def make_engine(node: Node, *, kind: str = "cpu", name: str = "fake", script: Path | None = None) -> EngineInstall:
    """An engine install that runs the fake engine under this interpreter."""
    return engine_register(
        node=node,
        name=name,
        version="0.32.0",
        kind=kind,
        interpreter=sys.executable,
        argv_prefix=[sys.executable, str(FAKE_ENGINE)],
        env={"FAKE_ENGINE_SCRIPT": str(script)} if script else {},
    )


def make_placed(
    deployment: Deployment, *, node: Node, port: int = 18001, slot: int = 0, now: datetime = NOW
) -> Replica:
    """A pending replica with a place."""
    engine = node.engines.first() or make_engine(node)
    row = replica_create(deployment, slot=slot, now=now)
    assert replica_place(row, node=node, engine=engine, port=port, claim={"cores": 1.0}, now=now)
    row.refresh_from_db()
    return row
