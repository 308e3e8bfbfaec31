"""What a request leaves behind: one usage record, and in-flight counts that can't leak."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Literal, Protocol, Self

import msgspec

from gateway.proxy.interrupt import Interruptible
from gateway.proxy.openai import Endpoint
from gateway.proxy.streaming import Usage

Clock = Callable[[], float]
Outcome = Literal["completed", "cut", "client_gone", "upstream_error", "refused"]
CUT_IDS_LIMIT = 100


class UsageRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One request; times in seconds, `at` in epoch seconds, None for what is not known."""

    id: str
    client_request_id: str | None
    at: float
    team: str | None
    key_id: str | None
    profile: str | None
    revision: int | None
    replica: str | None
    endpoint: Endpoint
    streamed: bool
    status: int
    outcome: Outcome
    error_code: str | None
    prompt_tokens: int | None
    cached_tokens: int | None
    completion_tokens: int | None
    ttft: float | None
    e2e: float
    gateway: str


class ReplicaReport(msgspec.Struct, frozen=True, kw_only=True):
    """One replica's part of a report; `busy_seconds` is wall time with a request in flight, cumulative."""

    in_flight: int
    oldest_age: float | None
    busy_seconds: float
    completed: int
    cut: int
    cut_ids: list[str]


class GatewayReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a gateway process tells the control plane each second."""

    process_id: str
    at: float
    table_version: int | None
    table_age: float | None
    replicas: dict[str, ReplicaReport]
    usage_queued: int
    usage_dropped: int
    valkey: bool


class UsageSink(Protocol):
    """Takes records without waiting; a full one drops and counts."""

    def put(self, record: UsageRecord) -> None:
        """Take one record."""
        ...

    @property
    def queued(self) -> int:
        """Records that are not stored yet."""
        ...

    @property
    def dropped(self) -> int:
        """Records lost so far."""
        ...


@dataclass(slots=True, kw_only=True)
class Call:
    """One request while it runs, filled in as it goes; `started` and `first_token` are monotonic seconds."""

    id: str
    client_request_id: str | None
    at: float
    started: float
    endpoint: Endpoint
    team: str | None = None
    key_id: str | None = None
    profile: str | None = None
    revision: int | None = None
    replica: str | None = None
    streamed: bool = False
    status: int | None = None
    outcome: Outcome = "refused"
    error_code: str | None = None
    usage: Usage = field(default_factory=Usage)
    first_token: float | None = None

    def record(self, *, gateway: str, mono: float) -> UsageRecord:
        """The usage record, at the end of the request. Status 499: the client left before any answer."""
        return UsageRecord(
            id=self.id,
            client_request_id=self.client_request_id,
            at=self.at,
            team=self.team,
            key_id=self.key_id,
            profile=self.profile,
            revision=self.revision,
            replica=self.replica,
            endpoint=self.endpoint,
            streamed=self.streamed,
            status=499 if self.status is None else self.status,
            outcome=self.outcome,
            error_code=self.error_code,
            prompt_tokens=self.usage.prompt_tokens,
            cached_tokens=self.usage.cached_tokens,
            completion_tokens=self.usage.completion_tokens,
            ttft=None if self.first_token is None else self.first_token - self.started,
            e2e=mono - self.started,
            gateway=gateway,
        )


class ReplicaLoad:
    """One replica's requests in this process. The count is the size of a map, so it is never negative."""

    def __init__(self) -> None:
        self.calls: dict[str, tuple[float, Interruptible]] = {}
        self.completed = 0
        self.cut_count = 0
        self.cut_ids: deque[str] = deque(maxlen=CUT_IDS_LIMIT)
        self.missing_since: float | None = None
        self._busy_seconds = 0.0
        self._busy_since = 0.0

    def enter(self, request_id: str, interrupt: Interruptible, *, mono: float) -> None:
        """Count a request in."""
        if not self.calls:
            self._busy_since = mono
        self.calls[request_id] = (mono, interrupt)

    def leave(self, request_id: str, *, mono: float) -> None:
        """Count a request out."""
        del self.calls[request_id]
        if not self.calls:
            self._busy_seconds += mono - self._busy_since

    def cut(self) -> int:
        """End every request, and say how many."""
        ids = [one for one, (_, interrupt) in self.calls.items() if interrupt.fire("cut")]
        self.cut_count += len(ids)
        self.cut_ids.extend(ids)
        return len(ids)

    def report(self, *, mono: float) -> ReplicaReport:
        """The figures now. Requests are kept in order of arrival, so the first is the oldest."""
        oldest = next(iter(self.calls.values()), None)
        return ReplicaReport(
            in_flight=len(self.calls),
            oldest_age=None if oldest is None else mono - oldest[0],
            busy_seconds=self._busy_seconds + (mono - self._busy_since if self.calls else 0.0),
            completed=self.completed,
            cut=self.cut_count,
            cut_ids=list(self.cut_ids),
        )


class Hold:
    """One request on one replica. Leaving the block counts it out, however it is left."""

    def __init__(self, load: ReplicaLoad, request_id: str, interrupt: Interruptible, clock: Clock) -> None:
        self._load = load
        self._request_id = request_id
        self._interrupt = interrupt
        self._clock = clock

    def __enter__(self) -> Self:
        self._load.enter(self._request_id, self._interrupt, mono=self._clock())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._load.leave(self._request_id, mono=self._clock())


class Loads:
    """The loads of all replicas that this process has sent to."""

    def __init__(self, clock: Clock) -> None:
        self.rows: dict[str, ReplicaLoad] = {}
        self._clock = clock

    def hold(self, replica_id: str, request_id: str, interrupt: Interruptible) -> Hold:
        """A hold to enter at once."""
        return Hold(self.rows.setdefault(replica_id, ReplicaLoad()), request_id, interrupt, self._clock)

    def in_flight(self, replica_id: str) -> int:
        """Requests on a replica now."""
        load = self.rows.get(replica_id)
        return 0 if load is None else len(load.calls)

    def count_completed(self, replica_id: str) -> None:
        """Count a request that the replica answered whole."""
        self.rows.setdefault(replica_id, ReplicaLoad()).completed += 1

    def report(self, *, mono: float) -> dict[str, ReplicaReport]:
        """The figures of every replica."""
        return {replica_id: load.report(mono=mono) for replica_id, load in self.rows.items()}
