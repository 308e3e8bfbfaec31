"""Nodes, their GPUs, and the engines installed on them."""

import uuid

from django.db import models


class Node(models.Model):
    """A host that runs engines. ``lease_until`` is renewed by its agent; past it the node is unreachable."""

    name = models.CharField(max_length=100, unique=True)
    kind = models.CharField(max_length=10, default="cpu", help_text="cpu or gpu, as its agent reads it")
    lease_until = models.DateTimeField(null=True)
    last_seen = models.DateTimeField(null=True)
    cordoned = models.BooleanField(default=False)
    stopping = models.BooleanField(default=False, help_text="Its control plane is going down: place nothing")
    address = models.CharField(max_length=100, default="127.0.0.1")
    cores = models.PositiveIntegerField(null=True)
    memory_total_bytes = models.BigIntegerField(null=True)
    memory_available_bytes = models.BigIntegerField(null=True)
    boot_id = models.CharField(max_length=64, blank=True)
    problems = models.JSONField(default=list)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name


class Gpu(models.Model):
    """One accelerator as the node's agent reads it. Null means unknown, never 0."""

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="gpus")
    uuid = models.CharField(max_length=100)
    index = models.PositiveIntegerField()
    name = models.CharField(max_length=100)
    compute_capability = models.CharField(max_length=10, blank=True)
    memory_total_bytes = models.BigIntegerField(null=True)
    memory_used_bytes = models.BigIntegerField(null=True)
    utilization = models.FloatField(null=True)
    power_watts = models.FloatField(null=True)
    power_limit_watts = models.FloatField(null=True)
    temperature_c = models.FloatField(null=True)
    processes = models.JSONField(default=list)
    last_seen = models.DateTimeField(null=True)
    missing_since = models.DateTimeField(null=True)

    class Meta:
        ordering = ("node", "index")
        constraints = (models.UniqueConstraint(fields=("node", "uuid"), name="one_row_a_device"),)

    def __str__(self) -> str:
        return f"{self.node.name}/{self.index}"


class EngineInstall(models.Model):
    """One engine installed on one node: how it is started, and which flags its own parser knows."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="engines")
    name = models.CharField(max_length=100)
    version = models.CharField(max_length=50)
    kind = models.CharField(max_length=10, help_text="cpu or cuda")
    interpreter = models.CharField(max_length=500)
    interpreter_version = models.CharField(max_length=20, blank=True)
    argv_prefix = models.JSONField(help_text="argv before the engine's own arguments")
    env = models.JSONField(default=dict)
    flags = models.JSONField(default=list, help_text="Options that the installed parser knows")
    enabled = models.BooleanField(default=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("node", "name")
        constraints = (models.UniqueConstraint(fields=("node", "name"), name="one_install_a_name"),)

    def __str__(self) -> str:
        return f"{self.name} {self.version} on {self.node.name}"
