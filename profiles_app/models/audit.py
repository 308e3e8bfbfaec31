"""What people changed, and the one-time links that they may open."""

from django.conf import settings
from django.db import models

from profiles_app.models.team import Team


class AuditEntry(models.Model):
    """One change by a person or a script, written in the same transaction as the change. Never changed."""

    at = models.DateTimeField(auto_now_add=True)
    actor = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    team = models.ForeignKey(Team, on_delete=models.SET_NULL, null=True, related_name="+")
    action = models.CharField(max_length=60)
    target = models.CharField(max_length=200)
    detail = models.JSONField(default=dict)

    class Meta:
        ordering = ("-at", "-id")

    def __str__(self) -> str:
        return f"{self.action} {self.target}"


class SetupToken(models.Model):
    """The one-time link that makes the first administrator. Only its hash is kept."""

    token_hash = models.CharField(max_length=64, primary_key=True)
    expires_at = models.DateTimeField()
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"expires {self.expires_at:%Y-%m-%d %H:%M}"
