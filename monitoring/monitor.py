"""The leased long-lived process: ingest, scrape, roll up and publish, once a second.

A pass does nothing without the lease. Whatever a pass misses because the broker or the database is
away is taken up by a later one: the usage stream keeps it, and counters only grow.
"""

import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import redis
from django.db import close_old_connections

from monitoring import ingest
from monitoring.frames import WINDOW_SECONDS, Holder, Watched, observations, window_data
from monitoring.ledger import BusyMeter, claim_of
from monitoring.publish import LeaseLostError, Publisher
from monitoring.readers import usage
from monitoring.readers.base import EngineReader, EngineReading, Target
from monitoring.readers.vllm import CounterIncrease
from monitoring.rollups import Trailing
from monitoring.selectors import price_book, promises, verdict_row
from profiles_app.models import Profile, Replica
from profiles_app.selectors import all_profiles, open_replicas
from profiles_app.states import ReplicaPhase

logger = logging.getLogger(__name__)

PERIOD_SECONDS = 1.0
LEASE_SECONDS = 5.0
STATUS_SECONDS = 15.0
PRUNE_EVERY_PASSES = 60
BATCHES_A_PASS = 20
LONGEST_BACKOFF_SECONDS = 15.0
# After a pause longer than this, capacity held meanwhile is a gap, not a guess.
LONGEST_STRIDE_SECONDS = 5.0


def new_generation(*, now: float) -> str:
    """Return the start id of a monitor: browsers rebuild when it changes."""
    return f"{socket.gethostname()}-{os.getpid()}-{int(now * 1000)}"


class Monitor:
    """One monitor. `step` is one pass and takes the time; `run` repeats it until told to stop."""

    def __init__(self, *, client: redis.Redis, reader: EngineReader, generation: str, time_scale: float) -> None:
        self.generation = generation
        self._client = client
        self._reader = reader
        self._scale = time_scale
        self._publisher = Publisher(client, holder=generation, lease_seconds=LEASE_SECONDS * time_scale)
        self._fence: int | None = None
        self._seq: dict[str, int] = {}
        self._passes = 0
        self._last: float | None = None
        self._window = Trailing(seconds=WINDOW_SECONDS)
        self._meter = BusyMeter()
        self._tokens = CounterIncrease()
        self._readings: dict[str, EngineReading] = {}

    def step(self, *, now: float) -> int:
        """Run one pass; returns how many frames were published, 0 without the lease."""
        if not self._hold_lease(now):
            return 0
        try:
            return self._pass(now)
        except (LeaseLostError, ingest.StaleFenceError):
            logger.warning("another monitor took over")
            self._fence = None
            return 0

    def run(self, stop: threading.Event, *, clock: Callable[[], float] = time.time) -> None:
        """Repeat passes until `stop` is set, then give the lease back."""
        backoff = 0.0
        while not stop.is_set():
            began = time.monotonic()
            try:
                self.step(now=clock())
                backoff = 0.0
            except Exception:
                backoff = min(max(PERIOD_SECONDS, backoff * 2), LONGEST_BACKOFF_SECONDS)
                logger.exception("monitor pass failed; next in %.1f s", backoff * self._scale)
                close_old_connections()
            took = time.monotonic() - began
            stop.wait(max(0.0, PERIOD_SECONDS * self._scale - took) + backoff * self._scale)
        self.release()

    def release(self) -> None:
        """Give the lease back, so that another monitor starts at once."""
        try:
            self._publisher.release()
        except redis.RedisError as error:
            logger.info("lease not given back: %s", error)

    def _hold_lease(self, now: float) -> bool:
        state = self._publisher.take_or_renew()
        if state is None:
            self._fence = None
            return False
        if state == "taken" or self._fence is None:
            self._fence = ingest.claim_fence()
            self._window = Trailing(seconds=WINDOW_SECONDS)
            self._window.add(ingest.recent(now=now, seconds=WINDOW_SECONDS))
            logger.info("monitor %s holds the lease, fence %d", self.generation, self._fence)
        return True

    def _pass(self, now: float) -> int:
        counts = self._ingest(now)
        watched = _watched()
        holders, targets = _capacity()
        fresh = self._reader.read(targets, now=now)
        self._keep_readings(fresh, holders)
        self._observe(watched, holders, fresh, now)
        self._window.forget(now=now)
        frames = self._frames(watched, holders, now)
        self._publisher.publish(frames)
        self._passes += 1
        pruned = ingest.prune(now=now) if self._passes % PRUNE_EVERY_PASSES == 0 else 0
        self._report(counts | {"frames": len(frames), "pruned": pruned}, now)
        return len(frames)

    def _held_fence(self) -> int:
        if self._fence is None:
            raise LeaseLostError
        return self._fence

    def _ingest(self, now: float) -> dict[str, int]:
        counts = {"new": 0, "duplicates": 0, "malformed": 0}
        for _ in range(BATCHES_A_PASS):
            batch = ingest.ingest_batch(self._client, fence=self._held_fence(), now=now)
            self._window.add(batch.fine)
            counts["new"] += batch.new
            counts["duplicates"] += batch.duplicates
            counts["malformed"] += batch.malformed
            if not batch.more:
                break
        return counts

    def _keep_readings(self, fresh: dict[str, EngineReading], holders: list[Holder]) -> None:
        """Keep each live replica's last reading: a stale level is shown with its age."""
        ids = {holder.id for holder in holders}
        kept = {replica: reading for replica, reading in self._readings.items() if replica in ids}
        self._readings = kept | fresh

    def _observe(
        self, watched: list[Watched], holders: list[Holder], fresh: dict[str, EngineReading], now: float
    ) -> None:
        elapsed = 0.0 if self._last is None else max(0.0, now - self._last)
        self._last = now
        busy = self._meter.advance(usage.busy_of(usage.gateway_reports(self._client)), now=now)
        self._tokens.keep({holder.id for holder in holders})
        fine = observations(
            watched=watched,
            holders=holders,
            busy=busy,
            readings=fresh,
            grown={
                replica: self._tokens.take(replica, reading.generation_tokens) for replica, reading in fresh.items()
            },
            elapsed=elapsed if elapsed <= LONGEST_STRIDE_SECONDS else 0.0,
            now=now,
        )
        ingest.merge_observations(fine, fence=self._held_fence())
        self._window.add(fine)

    def _frames(self, watched: list[Watched], holders: list[Holder], now: float) -> list[dict[str, Any]]:
        prices = price_book()
        return [self._frame(profile, holders, prices, now) for profile in watched]

    def _frame(self, profile: Watched, holders: list[Holder], prices: Any, now: float) -> dict[str, Any]:
        topic = f"profile:{profile.name}"
        self._seq[topic] = self._seq.get(topic, 0) + 1
        mine = [holder for holder in holders if holder.profile == profile.name]
        data = window_data(
            self._window.merged(profile.name, now=now),
            prices=prices,
            readings=[self._readings[holder.id] for holder in mine if holder.id in self._readings],
            replicas_ready=sum(holder.ready for holder in mine),
            now=now,
        )
        return {
            "topic": topic,
            "team": profile.team,
            "generation": self.generation,
            "seq": self._seq[topic],
            "at": now,
            "data": data,
            # Beside the figures that it is said of, so that a page never shows the two of different moments.
            "verdict": verdict_row(profile=profile.name, data=data, promised=profile.promised),
        }

    def _report(self, counts: dict[str, int], now: float) -> None:
        newest = usage.newest_position(self._client)
        position = ingest.position()
        behind = 0.0
        if newest is not None:
            behind = max(0.0, (usage.position_order(newest)[0] - usage.position_order(position)[0]) / 1000.0)
        status = {"generation": self.generation, "at": now, "lag_seconds": behind, "passes": self._passes, **counts}
        self._publisher.report(status, seconds=STATUS_SECONDS * self._scale)


def _watched() -> list[Watched]:
    """Return every profile with its team, the revision wanted now, and what that promises."""
    return [_watch(row) for row in all_profiles().select_related("deployment__revision")]


def _watch(profile: Profile) -> Watched:
    deployment = getattr(profile, "deployment", None)
    if deployment is None:
        return Watched(name=profile.name, team=profile.team.slug, revision=0)
    return Watched(
        name=profile.name,
        team=profile.team.slug,
        revision=deployment.revision.number,
        promised=promises(profile),
    )


def _capacity() -> tuple[list[Holder], list[Target]]:
    """Return every replica that holds capacity, and the engines among them that can be scraped."""
    holders: list[Holder] = []
    targets: list[Target] = []
    for row in open_replicas():
        if row.phase == ReplicaPhase.PENDING:
            continue
        holder = Holder(
            id=str(row.id),
            profile=row.deployment.profile.name,
            revision=row.revision.number,
            claim=claim_of(row.claim),
            ready=row.phase == ReplicaPhase.READY,
        )
        holders.append(holder)
        if (target := _target(row, holder)) is not None:
            targets.append(target)
    return holders, targets


def _target(row: Replica, holder: Holder) -> Target | None:
    if row.port is None or row.node is None or row.phase == ReplicaPhase.STARTING:
        return None
    return Target(
        replica=holder.id,
        profile=holder.profile,
        revision=holder.revision,
        url=f"http://{row.node.address}:{row.port}",
        api_key=row.api_key,
    )
