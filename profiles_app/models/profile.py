"""Profiles and their immutable revisions."""

import uuid

from django.conf import settings
from django.db import models

from profiles_app.models.model import ModelVersion
from profiles_app.models.team import Team


class Profile(models.Model):
    """A named contract for serving one model version. Its name is what clients send as ``model``."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="profiles")
    name = models.SlugField(max_length=63, unique=True)
    description = models.CharField(max_length=300, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name


class Revision(models.Model):
    """One version of a profile's spec, hashed and never changed."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    profile = models.ForeignKey(Profile, on_delete=models.CASCADE, related_name="revisions")
    number = models.PositiveIntegerField()
    spec = models.JSONField()
    spec_hash = models.CharField(max_length=64)
    model_version = models.ForeignKey(ModelVersion, on_delete=models.PROTECT, related_name="revisions")
    note = models.CharField(max_length=300, blank=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("profile", "-number")
        constraints = (models.UniqueConstraint(fields=("profile", "number"), name="one_number_a_profile"),)

    def __str__(self) -> str:
        return f"{self.profile.name} r{self.number}"
