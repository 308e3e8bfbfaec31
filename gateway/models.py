"""Tables of the data plane: API keys (control database) and usage records (telemetry database)."""

import uuid

from django.conf import settings
from django.db import models

from profiles_app.models import Profile, Team


class ApiKey(models.Model):
    """A key for the gateway. Shown once; only its SHA-256 is kept, which is right for a random secret."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="+")
    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=20)
    key_hash = models.CharField(max_length=64, unique=True)
    all_profiles = models.BooleanField(default=False, help_text="Every profile of the team")
    profiles = models.ManyToManyField(Profile, related_name="+", blank=True)
    max_concurrency = models.PositiveIntegerField(null=True)
    expires_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    internal = models.BooleanField(default=False, help_text="Made by Forebay for its own playground")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("team", "name", "created_at")

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"


class RoutingTable(models.Model):
    """The one row that numbers published tables, so that a version never falls, whatever Valkey forgot."""

    version = models.PositiveBigIntegerField(default=0)
    content_hash = models.CharField(max_length=64, blank=True)
    published_at = models.FloatField(null=True)

    def __str__(self) -> str:
        return f"table {self.version}"


class UsageRecord(models.Model):
    """One request, as the gateway saw it. Lives in the telemetry database: no foreign keys."""

    id = models.CharField(primary_key=True, max_length=40)
    client_request_id = models.CharField(max_length=200, null=True)  # noqa: DJ001 - null is "the client sent none"
    at = models.FloatField(db_index=True, help_text="Epoch seconds")
    team = models.CharField(max_length=50, null=True)  # noqa: DJ001 - null is "not known", "" would be a team
    key_id = models.CharField(max_length=40, null=True)  # noqa: DJ001 - null is "no valid key"
    profile = models.CharField(max_length=63, null=True)  # noqa: DJ001 - null is "none was reached"
    revision = models.PositiveIntegerField(null=True)
    replica = models.CharField(max_length=40, null=True)  # noqa: DJ001 - null is "none was reached"
    endpoint = models.CharField(max_length=20)
    streamed = models.BooleanField()
    status = models.PositiveIntegerField()
    outcome = models.CharField(max_length=20)
    error_code = models.CharField(max_length=60, null=True)  # noqa: DJ001 - null is "no error"
    prompt_tokens = models.PositiveIntegerField(null=True)
    cached_tokens = models.PositiveIntegerField(null=True)
    completion_tokens = models.PositiveIntegerField(null=True)
    ttft = models.FloatField(null=True)
    e2e = models.FloatField()
    gateway = models.CharField(max_length=100)

    class Meta:
        indexes = (models.Index(fields=("profile", "at")), models.Index(fields=("team", "at")))

    def __str__(self) -> str:
        return f"{self.id} {self.outcome}"
