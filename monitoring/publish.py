"""The monitor's side of Valkey: its lease, frames that only a lease holder can publish, its own status."""

import json
from typing import Any

import redis

CHANNEL = "forebay:live"
LEASE = "forebay:monitor:lease"
STATUS = "forebay:monitor:status"

_RENEW = """
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end
if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 2 end
return 0
"""
_PUBLISH = """
if redis.call('get', KEYS[1]) ~= ARGV[1] then return -1 end
for i = 2, #ARGV do redis.call('publish', KEYS[2], ARGV[i]) end
return #ARGV - 1
"""
_RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"


class LeaseLostError(RuntimeError):
    """Another monitor holds the lease now."""


class Publisher:
    """Holds the lease under `holder` and publishes frames; the check and the publishing are one step."""

    def __init__(self, client: redis.Redis, *, holder: str, lease_seconds: float) -> None:
        self._client = client
        self._holder = holder
        self._lease_ms = max(1, int(lease_seconds * 1000))

    def take_or_renew(self) -> str | None:
        """Return "taken" when the lease is new, "renewed" when it was ours already, else None."""
        answer: Any = self._client.eval(_RENEW, 1, LEASE, self._holder, str(self._lease_ms))
        return {1: "renewed", 2: "taken"}.get(int(answer))

    def publish(self, frames: list[dict[str, Any]]) -> None:
        """Publish frames, all or none. Raises LeaseLostError when the lease is not ours."""
        texts = [json.dumps(frame, separators=(",", ":"), allow_nan=False) for frame in frames]
        if texts:
            answer: Any = self._client.eval(_PUBLISH, 2, LEASE, CHANNEL, self._holder, *texts)
            if int(answer) < 0:
                raise LeaseLostError

    def report(self, status: dict[str, Any], *, seconds: float) -> None:
        """Leave the monitor's status for the exporter; it expires when the monitor falls silent."""
        self._client.set(STATUS, json.dumps(status), px=max(1, int(seconds * 1000)))

    def release(self) -> None:
        """Give the lease back, if it is ours."""
        self._client.eval(_RELEASE, 1, LEASE, self._holder)


def read_status(client: redis.Redis) -> dict[str, Any] | None:
    """Return the status that the lease holder left, or None when no monitor runs."""
    raw: Any = client.get(STATUS)
    try:
        status = json.loads(raw) if raw else None
    except ValueError:
        return None
    return status if isinstance(status, dict) else None
