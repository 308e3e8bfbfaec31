"""Shapes of nodes, devices and engine installs."""

from typing import Any

from rest_framework import serializers


class GpuSerializer(serializers.Serializer[Any]):
    """One device as its node's last reading has it. Null: unknown."""

    uuid = serializers.CharField()
    index = serializers.IntegerField()
    name = serializers.CharField()
    compute_capability = serializers.CharField()
    memory_total_bytes = serializers.IntegerField(allow_null=True)
    memory_used_bytes = serializers.IntegerField(allow_null=True)
    utilization = serializers.FloatField(allow_null=True, help_text="0 to 1")
    power_watts = serializers.FloatField(allow_null=True)
    power_limit_watts = serializers.FloatField(allow_null=True)
    temperature_c = serializers.FloatField(allow_null=True)
    processes = serializers.ListField(child=serializers.DictField())
    last_seen = serializers.DateTimeField(allow_null=True)
    missing_since = serializers.DateTimeField(allow_null=True)


class EngineSerializer(serializers.Serializer[Any]):
    """One engine installed on one node."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    version = serializers.CharField()
    kind = serializers.CharField(help_text="cpu or cuda")
    interpreter = serializers.CharField()
    interpreter_version = serializers.CharField()
    enabled = serializers.BooleanField()
    created_at = serializers.DateTimeField()


class EngineOnNodeSerializer(EngineSerializer):
    """An engine install with its node."""

    node = serializers.CharField(source="node.name")


class NodeSerializer(serializers.Serializer[Any]):
    """A host that runs engines."""

    name = serializers.CharField(source="row.name")
    kind = serializers.CharField(source="row.kind", help_text="cpu or gpu")
    reachable = serializers.BooleanField(help_text="Its agent's lease holds")
    cordoned = serializers.BooleanField(source="row.cordoned")
    stopping = serializers.BooleanField(source="row.stopping")
    address = serializers.CharField(source="row.address")
    cores = serializers.IntegerField(source="row.cores", allow_null=True)
    memory_total_bytes = serializers.IntegerField(source="row.memory_total_bytes", allow_null=True)
    memory_available_bytes = serializers.IntegerField(source="row.memory_available_bytes", allow_null=True)
    problems = serializers.ListField(child=serializers.JSONField(), source="row.problems")
    last_seen = serializers.DateTimeField(source="row.last_seen", allow_null=True)
    gpus = GpuSerializer(many=True, source="row.gpus.all")
    engines = EngineSerializer(many=True, source="row.engines.all")
