"""Tables of monitoring. Writers: services.price_create for prices, ingest for roll-ups and cursors."""

from django.conf import settings
from django.db import models
from django.db.models import Q

TELEMETRY_MODELS = ("monitoring.Rollup", "monitoring.IngestCursor")


class Price(models.Model):
    """What one unit of an accelerator costs for an hour. Never edited: a correction is a new, later row."""

    class Unit(models.TextChoices):
        CORE_HOUR = "core_hour", "core-hour"
        GPU_HOUR = "gpu_hour", "GPU-hour"

    accelerator = models.CharField(max_length=100, help_text='"cpu", or the name of a GPU as its node reports it')
    unit = models.CharField(max_length=10, choices=Unit.choices)
    usd = models.DecimalField(max_digits=14, decimal_places=6)
    currency = models.CharField(max_length=3, default="USD")
    source = models.CharField(max_length=300)
    as_of = models.DateField(help_text="The day on which the source said so")
    valid_from = models.DateTimeField(help_text="A whole minute")
    note = models.CharField(max_length=500, blank=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("-valid_from", "-id")
        indexes = (models.Index(fields=("accelerator", "valid_from")),)
        constraints = (models.CheckConstraint(condition=Q(usd__gte=0), name="price_not_negative"),)

    def __str__(self) -> str:
        return f"{self.accelerator}: {self.usd} {self.currency} a {self.unit}"


class Rollup(models.Model):
    """What happened to a profile and revision in one span of `tier` seconds from `start` (epoch seconds)."""

    profile = models.CharField(max_length=63)
    revision = models.PositiveIntegerField(help_text="0: no revision was reached")
    tier = models.PositiveSmallIntegerField(help_text="Seconds: 1, 10 or 60")
    start = models.BigIntegerField()
    payload = models.JSONField(help_text="monitoring.rollups.Bucket, encoded")

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=("profile", "tier", "start", "revision"), name="one_rollup_a_span"),
        )
        indexes = (models.Index(fields=("tier", "start")),)

    def __str__(self) -> str:
        return f"{self.profile} r{self.revision} {self.start}+{self.tier}"


class IngestCursor(models.Model):
    """How far a stream was read. `fence` only rises: a monitor with a lower one may not write."""

    name = models.CharField(max_length=50, primary_key=True)
    position = models.CharField(max_length=50, default="0-0")
    fence = models.BigIntegerField(default=0)
    ingested = models.BigIntegerField(default=0)
    duplicates = models.BigIntegerField(default=0)
    malformed = models.BigIntegerField(default=0)
    updated_at = models.FloatField(null=True, help_text="Epoch seconds")

    def __str__(self) -> str:
        return f"{self.name} at {self.position}"
