"""Writes idempotency keys: a create that is sent twice with the same key is done once and answered twice."""

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import IntegrityError, transaction

from profiles_app.errors import DomainError
from profiles_app.models import IdempotencyKey

KEPT = timedelta(hours=24)
# A call that takes longer has died: its change and its answer are one transaction, so neither was made.
UNFINISHED = timedelta(minutes=5)
MAX_KEY = 200


@dataclass(frozen=True, slots=True)
class Answer:
    """The first answer to a create: HTTP status and JSON body, without secrets."""

    status: int
    body: Any


def request_hash(*, method: str, path: str, data: Any) -> str:
    """SHA-256 (hex) of what was asked. Two bodies that differ only in key order or spaces are the same request."""
    text = json.dumps([method, path, data], sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def idempotency_begin(*, user_id: int, key: str, request_hash: str, now: datetime) -> Answer | None:
    """Claim the key. None: the caller does the work; an Answer: it was done before.

    Raises DomainError: 422 for a key with another request or of a wrong form, 409 while the first call still runs.
    """
    if not 0 < len(key) <= MAX_KEY or not key.isprintable():
        raise DomainError(
            "invalid_idempotency_key", f"An Idempotency-Key has 1 to {MAX_KEY} printable signs.", status=422
        )
    IdempotencyKey.objects.filter(created_at__lt=now - KEPT).delete()
    try:
        with transaction.atomic():
            IdempotencyKey.objects.create(user_id=user_id, key=key, request_hash=request_hash)
    except IntegrityError:
        return _answer_of(user_id=user_id, key=key, request_hash=request_hash, now=now)
    return None


def _answer_of(*, user_id: int, key: str, request_hash: str, now: datetime) -> Answer | None:
    row = IdempotencyKey.objects.filter(user_id=user_id, key=key).first()
    if row is not None and row.request_hash != request_hash:
        raise DomainError(
            "idempotency_mismatch",
            "This Idempotency-Key was used for another request; use a new key for a new request.",
            status=422,
        )
    if row is not None and row.status is not None:
        return Answer(row.status, row.body)
    if row is not None and _take_over(row, now=now):
        return None
    raise DomainError(
        "in_progress", "The first call with this Idempotency-Key is still running; ask again in a moment.", status=409
    )


def _take_over(row: IdempotencyKey, *, now: datetime) -> bool:
    """Claim the key of a call that died. Of two that try, one wins."""
    if row.created_at > now - UNFINISHED:
        return False
    same = IdempotencyKey.objects.filter(pk=row.pk, status=None, created_at=row.created_at)
    return bool(same.update(created_at=now))


def idempotency_finish(*, user_id: int, key: str, answer: Answer) -> None:
    """Keep the answer. Call it in the transaction of the change, so that both are made or neither."""
    IdempotencyKey.objects.filter(user_id=user_id, key=key).update(status=answer.status, body=answer.body)


def idempotency_release(*, user_id: int, key: str) -> None:
    """Forget an unfinished key: the request was refused and changed nothing, so it may be sent again."""
    IdempotencyKey.objects.filter(user_id=user_id, key=key, status=None).delete()
