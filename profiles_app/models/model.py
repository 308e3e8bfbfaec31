"""Models and their versions: what an engine loads."""

import uuid

from django.db import models


class Model(models.Model):
    """A language model by name."""

    name = models.CharField(max_length=200, unique=True)
    licence = models.CharField(max_length=100, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name


class ModelVersion(models.Model):
    """One set of weights of a model. Never changed once a revision names it."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    model = models.ForeignKey(Model, on_delete=models.PROTECT, related_name="versions")
    label = models.CharField(max_length=100)
    source = models.CharField(max_length=500, help_text="Folder on the nodes, or repository id")
    commit = models.CharField(max_length=100, blank=True)
    weights_dtype = models.CharField(max_length=20, default="bf16")
    weights_note = models.CharField(max_length=200, blank=True, help_text="Shown wherever the precision is shown")
    weights_bytes = models.BigIntegerField(null=True)
    max_context = models.PositiveIntegerField(null=True)
    facts = models.JSONField(default=dict)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("model__name", "label")
        constraints = (models.UniqueConstraint(fields=("model", "label"), name="one_label_a_model"),)

    def __str__(self) -> str:
        return f"{self.model.name}@{self.label}"
