"""Deployments (wishes), replicas (one process lifetime each) and their transitions.

Writers: desired columns by services.deployments; placement, phase and observed columns by services.replicas.
"""

import uuid
from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import timezone

from profiles_app.models.node import EngineInstall, Node
from profiles_app.models.profile import Profile, Revision
from profiles_app.models.team import Team
from profiles_app.states import TERMINAL, Reason, ReplicaPhase


class Deployment(models.Model):
    """The wish: this revision, so many replicas. Its status is computed (profiles_app.states), never stored."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="deployments")
    profile = models.OneToOneField(Profile, on_delete=models.PROTECT, related_name="deployment")
    revision = models.ForeignKey(Revision, on_delete=models.PROTECT, related_name="deployments")
    replicas_wanted = models.PositiveIntegerField(default=1)
    drain_seconds = models.PositiveIntegerField(default=30)
    max_restarts = models.PositiveIntegerField(default=3)
    generation = models.PositiveIntegerField(default=1)
    observed_generation = models.PositiveIntegerField(default=0)
    restarts_counted_from = models.DateTimeField(default=timezone.now)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("profile__name",)

    def __str__(self) -> str:
        return f"{self.profile.name} × {self.replicas_wanted}"


class Replica(models.Model):
    """One engine process, from decision to exit."""

    OPEN: ClassVar[Q] = ~Q(phase__in=sorted(TERMINAL))

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    deployment = models.ForeignKey(Deployment, on_delete=models.PROTECT, related_name="replicas")
    revision = models.ForeignKey(Revision, on_delete=models.PROTECT, related_name="replicas")
    slot = models.PositiveIntegerField()
    generation = models.PositiveIntegerField()
    # desired
    wanted = models.BooleanField(default=True)
    unwanted_reason = models.CharField(max_length=40, blank=True)
    # placement
    node = models.ForeignKey(Node, on_delete=models.PROTECT, null=True, related_name="replicas")
    engine = models.ForeignKey(EngineInstall, on_delete=models.SET_NULL, null=True, related_name="replicas")
    claim = models.JSONField(default=dict)
    port = models.PositiveIntegerField(null=True)
    api_key = models.CharField(max_length=100, blank=True)
    marker = models.CharField(max_length=64)
    # observed
    phase = models.CharField(max_length=12, choices=[(p.value, p.name) for p in ReplicaPhase], default="pending")
    reason = models.CharField(max_length=40, default=Reason.CREATED.value)
    message = models.TextField(blank=True)
    phase_since = models.DateTimeField()
    last_seen = models.DateTimeField(null=True)
    pid = models.PositiveIntegerField(null=True)
    record = models.JSONField(null=True, help_text="The run record that proves the process ours")
    progress = models.JSONField(default=dict, help_text="Start-up phase and facts read from the engine's log")
    exit_status = models.IntegerField(null=True)
    fix = models.TextField(blank=True)
    drain_deadline = models.DateTimeField(null=True)
    drain_report = models.JSONField(default=dict)
    stop_signalled_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)
    ready_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ("deployment", "slot", "-created_at")
        constraints = (
            models.UniqueConstraint(
                fields=("deployment", "slot"),
                condition=Q(wanted=True) & ~Q(phase__in=("stopped", "failed")),
                name="one_wanted_replica_a_slot",
            ),
            models.UniqueConstraint(
                fields=("node", "port"), condition=~Q(phase__in=("stopped", "failed")), name="one_replica_a_port"
            ),
        )
        indexes = (models.Index(fields=("phase",)), models.Index(fields=("node", "phase")))

    def __str__(self) -> str:
        return f"{self.deployment.profile.name} #{self.slot} {str(self.id)[:8]}"


class Transition(models.Model):
    """One move of a replica, written in the same transaction as the move."""

    replica = models.ForeignKey(Replica, on_delete=models.CASCADE, related_name="transitions")
    old = models.CharField(max_length=12, blank=True)
    new = models.CharField(max_length=12)
    reason = models.CharField(max_length=40)
    message = models.TextField(blank=True)
    at = models.DateTimeField()

    class Meta:
        ordering = ("at", "id")
        indexes = (models.Index(fields=("replica", "at")),)

    def __str__(self) -> str:
        return f"{self.old} -> {self.new} ({self.reason})"
