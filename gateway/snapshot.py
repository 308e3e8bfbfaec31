"""Builds the routing table from the control database and publishes it: to Valkey, and to a file on this host."""

import hashlib
import logging
import os
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import redis
from django.conf import settings
from django.db import transaction
from redis.backoff import NoBackoff
from redis.retry import Retry

from gateway.models import ApiKey, RoutingTable
from gateway.proxy.table import SCHEMA, Table, TableKey, TableProfile, TableReplica, encode_table
from profiles_app.models import Profile, Replica
from profiles_app.selectors import all_profiles, routable_replicas
from profiles_app.states import ReplicaPhase

logger = logging.getLogger(__name__)

TABLE_KEY = "forebay:table"
VERSION_KEY = "forebay:table:version"
CHANNEL = "forebay:table"


def connect() -> redis.Redis:
    """A connection to Forebay's own data in Valkey; every call is bounded in time."""
    # No retries: callers hold a database lock meanwhile, and the next timer tries again.
    return redis.Redis.from_url(
        settings.FOREBAY_DATA_URL, socket_timeout=2, socket_connect_timeout=2, retry=Retry(NoBackoff(), 0)
    )


def table_path() -> Path:
    """The table file of this host, which gateways read while Valkey is down."""
    path: Path = settings.FOREBAY.data_dir / "run" / "table.json"
    return path


def publish(*, now: datetime) -> int:
    """Publish the table if it differs from the last one, and return the current version.

    The version is counted in the database, so it never falls. The file and Valkey are written under the same lock as
    the count: an older table cannot overwrite a newer one. Valkey being down is no error: gateways read the file.
    """
    with transaction.atomic():
        row = RoutingTable.objects.select_for_update().get_or_create(pk=1)[0]
        table = build(version=row.version + 1, now=now)
        digest = _digest(table)
        if digest == row.content_hash and table_path().exists():
            return _confirm(row)
        RoutingTable.objects.filter(pk=1).update(
            version=table.version, content_hash=digest, published_at=table.published_at
        )
        data = encode_table(table)
        _write_file(data)
        _write_valkey(data, table.version)
    return table.version


def _confirm(row: RoutingTable) -> int:
    """Nothing changed; give a Valkey that came back empty the table again."""
    try:
        connection = connect()
        if connection.get(VERSION_KEY) != str(row.version).encode():
            _write_valkey(table_path().read_bytes(), row.version)
    except (redis.RedisError, OSError) as error:
        logger.debug("the table version in Valkey could not be checked: %s", error)
    return row.version


def _digest(table: Table) -> str:
    content = msgspec.structs.replace(table, version=0, published_at=0.0)
    return hashlib.sha256(msgspec.json.encode(content, order="sorted")).hexdigest()


def _write_file(data: bytes) -> None:
    path = table_path()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_name(f"table.{os.getpid()}.json")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    fresh.replace(path)


def _write_valkey(data: bytes, version: int) -> None:
    try:
        pipeline = connect().pipeline()
        pipeline.set(TABLE_KEY, data)
        pipeline.set(VERSION_KEY, version)
        pipeline.publish(CHANNEL, str(version))
        pipeline.execute()
    except (redis.RedisError, OSError) as error:
        logger.warning("Valkey did not take table %s: %s", version, error)


def build(*, version: int, now: datetime) -> Table:
    """The table as the control database says it now."""
    replicas = routable_replicas()
    ready: dict[Any, list[str]] = {}
    for row in replicas:
        if row.phase == ReplicaPhase.READY:
            ready.setdefault(row.deployment.profile_id, []).append(str(row.pk))
    profiles = all_profiles().select_related("team", "deployment__revision__model_version__model")
    return Table(
        schema=SCHEMA,
        version=version,
        published_at=now.timestamp(),
        profiles={
            profile.name: entry
            for profile in profiles
            if (entry := _profile_entry(profile, tuple(ready.get(profile.pk, ())))) is not None
        },
        replicas={str(row.pk): _replica_entry(row) for row in replicas},
        keys={key.key_hash: _key_entry(key) for key in _live_keys()},
    )


def _profile_entry(profile: Profile, replicas: tuple[str, ...]) -> TableProfile | None:
    deployment = getattr(profile, "deployment", None)
    revision = deployment.revision if deployment else profile.revisions.select_related("model_version__model").first()
    if revision is None:
        return None
    spec: dict[str, Any] = revision.spec
    version = revision.model_version
    note = f" ({version.weights_note})" if version.weights_note else ""
    return TableProfile(
        profile_id=str(profile.pk),
        team=profile.team.slug,
        revision=revision.number,
        revision_hash=revision.spec_hash,
        model=f"{version.model.name}@{version.label}",
        precision=f"{spec['precision']['weights']}{note}",
        max_model_len=spec["batching"]["max_model_len"],
        max_concurrency=spec["compute"]["max_concurrency"],
        output_cap=spec["quality"]["output_cap"],
        replicas=replicas,
    )


def _replica_entry(row: Replica) -> TableReplica:
    return TableReplica(
        profile=row.deployment.profile.name,
        revision=row.revision.number,
        url=f"http://{row.node.address if row.node else '127.0.0.1'}:{row.port}",
        api_key=row.api_key,
        state="ready" if row.phase == ReplicaPhase.READY else "draining",
        drain_deadline=row.drain_deadline.timestamp() if row.drain_deadline else None,
    )


def _live_keys() -> list[ApiKey]:
    return list(ApiKey.objects.filter(revoked_at=None).select_related("team").prefetch_related("profiles"))


def _key_entry(key: ApiKey) -> TableKey:
    return TableKey(
        id=str(key.pk),
        name=key.name,
        team=key.team.slug,
        profiles=("*",) if key.all_profiles else tuple(profile.name for profile in key.profiles.all()),
        max_concurrency=key.max_concurrency,
        expires_at=key.expires_at.timestamp() if key.expires_at else None,
    )
