"""Database leases with fencing tokens: who may run a loop."""

from datetime import datetime, timedelta

from django.db import transaction

from profiles_app.models import Lease


def lease_take(name: str, *, holder: str, seconds: float, now: datetime) -> int | None:
    """Take or renew the lease. Returns the fencing token, or None while somebody else holds it.

    The token rises each time the holder changes, and never falls.
    """
    with transaction.atomic():
        row, _ = Lease.objects.select_for_update().get_or_create(name=name, defaults={"holder": "", "until": now})
        if row.holder != holder and row.until > now:
            return None
        token = row.token if row.holder == holder else row.token + 1
        until = now + timedelta(seconds=seconds)
        Lease.objects.filter(pk=name).update(holder=holder, until=until, token=token)
    return token


def lease_release(name: str, *, holder: str, now: datetime) -> bool:
    """Give the lease back, so that the next holder need not wait. False when it was not held."""
    return bool(Lease.objects.filter(pk=name, holder=holder).update(until=now))
