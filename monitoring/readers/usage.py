"""Reads the gateways' usage stream and reports from Valkey, and checks each entry before it is believed."""

import json
import math
from dataclasses import dataclass
from typing import Any

import redis

from gateway.models import UsageRecord
from monitoring.ledger import Busy
from monitoring.rollups import Sample

STREAM = "forebay:usage"
REPORTS = "forebay:gateway:*"
BATCH = 1000
_OUTCOMES = frozenset({"completed", "cut", "client_gone", "upstream_error", "refused"})
_MAX_TOKENS = 2**31 - 1
_ID_CHARACTERS = 40


class MalformedError(ValueError):
    """An entry that no gateway of ours can have written."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Records in stream order, the position after the last entry, and how many entries were malformed."""

    records: list[UsageRecord]
    position: str
    malformed: int


def read_batch(client: redis.Redis, *, after: str, count: int = BATCH) -> Batch | None:
    """Return the next entries after a position, or None when there are none. Does not wait."""
    answer: Any = client.xread({STREAM: after}, count=count)
    if not answer:
        return None
    entries = _entries(answer)
    records: list[UsageRecord] = []
    malformed = 0
    for _, fields in entries:
        try:
            records.append(parse(fields))
        except MalformedError:
            malformed += 1
    return Batch(records=records, position=_text(entries[-1][0]), malformed=malformed)


def _entries(answer: Any) -> list[tuple[Any, Any]]:
    """Return the stream's entries from either protocol version's answer."""
    if isinstance(answer, dict):
        lists = next(iter(answer.values()))
        return [entry for part in lists for entry in part]
    return list(answer[0][1])


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def newest_position(client: redis.Redis) -> str | None:
    """Return the id of the newest entry ever added, or None when there is no stream."""
    try:
        info: Any = client.xinfo_stream(STREAM)
    except redis.ResponseError:
        return None
    return _text(info["last-generated-id"])


def position_order(position: str) -> tuple[int, int]:
    """Return a position as numbers that compare as the stream orders them; the first is epoch ms."""
    milliseconds, _, sequence = position.partition("-")
    return int(milliseconds), int(sequence or 0)


def gateway_reports(client: redis.Redis) -> list[dict[str, Any]]:
    """Return the report of every gateway process with a live lease; broken ones are left out."""
    keys = list(client.scan_iter(REPORTS, count=100))
    reports = []
    for raw in client.mget(keys) if keys else []:
        try:
            report = json.loads(raw) if raw else None
        except ValueError:
            continue
        if isinstance(report, dict) and isinstance(report.get("process_id"), str):
            reports.append(report)
    return reports


def busy_of(reports: list[dict[str, Any]]) -> dict[str, Busy]:
    """Return what the busy meter needs of the reports."""
    found = {}
    for report in reports:
        replicas = report.get("replicas")
        seconds = {
            str(replica): float(state["busy_seconds"])
            for replica, state in (replicas.items() if isinstance(replicas, dict) else ())
            if isinstance(state, dict) and _is_amount(state.get("busy_seconds"))
        }
        if _is_amount(report.get("at")):
            found[report["process_id"]] = Busy(at=float(report["at"]), replicas=seconds)
    return found


def _is_amount(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0


def parse(fields: dict[Any, Any]) -> UsageRecord:
    """Return the record of a stream entry's fields. Raises MalformedError."""
    raw = fields.get(b"r", fields.get("r"))
    try:
        entry = json.loads(raw) if raw is not None else None
    except ValueError as error:
        raise MalformedError from error
    if not isinstance(entry, dict):
        raise MalformedError
    return UsageRecord(
        id=_required_id(entry),
        client_request_id=_optional_text(entry, "client_request_id", 200),
        at=_amount(entry, "at"),
        team=_optional_text(entry, "team", 50),
        key_id=_optional_text(entry, "key_id", 40),
        profile=_optional_text(entry, "profile", 63),
        revision=_optional_count(entry, "revision"),
        replica=_optional_text(entry, "replica", 40),
        endpoint=_optional_text(entry, "endpoint", 20) or "",
        streamed=bool(entry.get("streamed")),
        status=_optional_count(entry, "status") or 0,
        outcome=_outcome(entry),
        error_code=_optional_text(entry, "error_code", 60),
        prompt_tokens=_optional_count(entry, "prompt_tokens"),
        cached_tokens=_optional_count(entry, "cached_tokens"),
        completion_tokens=_optional_count(entry, "completion_tokens"),
        ttft=None if entry.get("ttft") is None else _amount(entry, "ttft"),
        e2e=_amount(entry, "e2e"),
        gateway=_optional_text(entry, "gateway", 100) or "",
    )


def _required_id(entry: dict[str, Any]) -> str:
    value = entry.get("id")
    if not isinstance(value, str) or not 0 < len(value) <= _ID_CHARACTERS:
        raise MalformedError
    return value


def _outcome(entry: dict[str, Any]) -> str:
    value = entry.get("outcome")
    if value not in _OUTCOMES:
        raise MalformedError
    return str(value)


def _amount(entry: dict[str, Any], name: str) -> float:
    value = entry.get(name)
    if not _is_amount(value):
        raise MalformedError
    return float(value)  # type: ignore[arg-type]  # _is_amount has checked it


def _optional_text(entry: dict[str, Any], name: str, longest: int) -> str | None:
    value = entry.get(name)
    return None if value is None else str(value)[:longest]


def _optional_count(entry: dict[str, Any], name: str) -> int | None:
    value = entry.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MAX_TOKENS:
        raise MalformedError
    return value


def sample_of(record: UsageRecord) -> Sample | None:
    """Return what the roll-ups need of a record, or None when it reached no profile."""
    if record.profile is None:
        return None
    return Sample(
        profile=record.profile,
        revision=record.revision or 0,
        ended_at=record.at + record.e2e,
        streamed=record.streamed,
        status=record.status,
        outcome=record.outcome,
        ttft=record.ttft,
        e2e=record.e2e,
        prompt_tokens=record.prompt_tokens or 0,
        cached_tokens=record.cached_tokens or 0,
        completion_tokens=record.completion_tokens or 0,
    )
