"""The only writer of price rows."""

from datetime import date, datetime
from decimal import Decimal

from django.db import transaction

from monitoring.ledger import unit_of
from monitoring.models import Price
from profiles_app.errors import DomainError
from profiles_app.selectors import Viewer
from profiles_app.services.audit import audit_record

MOST_USD = Decimal(1_000_000)


def price_create(
    viewer: Viewer,
    *,
    accelerator: str,
    usd: Decimal,
    source: str,
    as_of: date,
    valid_from: datetime,
    note: str = "",
) -> Price:
    """Add a price row, in force from the whole minute at or before `valid_from`. For an admin of a team.

    Rows are never edited: to correct one, add a row with the same start. Raises DomainError.
    """
    viewer.require_somewhere("admin")
    accelerator = accelerator.strip()
    if not accelerator:
        raise DomainError(
            "required", "Name the accelerator: cpu, or a GPU as its node reports it.", status=422, field="accelerator"
        )
    if not usd.is_finite() or not 0 <= usd <= MOST_USD:
        raise DomainError("out_of_range", "A price is from 0 to 1,000,000 USD an hour.", status=422, field="usd")
    if not source.strip():
        raise DomainError(
            "required", "Say where the price comes from: a contract, a bill or a list.", status=422, field="source"
        )
    with transaction.atomic():
        row = Price.objects.create(
            accelerator=accelerator,
            unit=unit_of(accelerator),
            usd=usd,
            source=source.strip(),
            as_of=as_of,
            valid_from=valid_from.replace(second=0, microsecond=0),
            note=note.strip(),
            created_by_id=viewer.user_id,
        )
        audit_record(
            viewer, team=None, action="price.create", target=accelerator, usd=str(usd), source=row.source, id=row.pk
        )
    return row
