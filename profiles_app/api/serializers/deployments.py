"""Shapes of deployments, replicas, their moves and their logs."""

from typing import Any

from rest_framework import serializers


class DrainSerializer(serializers.Serializer[Any]):
    """How far a drain is. Null figures: no gateway has reported yet."""

    in_flight = serializers.IntegerField(allow_null=True)
    oldest_age = serializers.FloatField(allow_null=True, help_text="Seconds")
    completed = serializers.IntegerField(allow_null=True)
    cut = serializers.IntegerField(allow_null=True)
    cut_ids = serializers.ListField(child=serializers.CharField())
    deadline = serializers.DateTimeField(allow_null=True)
    seconds_left = serializers.FloatField(allow_null=True)
    waiting_for = serializers.ListField(child=serializers.CharField(), help_text="Gateways that may still route to it")
    drained = serializers.BooleanField(help_text="Nothing is left in flight: safe to stop")
    message = serializers.CharField(help_text="Why nothing is known, if so")


class MoveSerializer(serializers.Serializer[Any]):
    """One move of a replica."""

    replica = serializers.UUIDField(source="replica_id")
    old = serializers.CharField(allow_blank=True)
    new = serializers.CharField()
    reason = serializers.CharField()
    message = serializers.CharField(allow_blank=True)
    at = serializers.DateTimeField()


class ReplicaSerializer(serializers.Serializer[Any]):
    """One engine process, from decision to exit."""

    id = serializers.UUIDField(source="row.pk")
    deployment = serializers.UUIDField(source="row.deployment_id")
    slot = serializers.IntegerField(source="row.slot")
    revision = serializers.IntegerField(source="row.revision.number")
    wanted = serializers.BooleanField(source="row.wanted")
    phase = serializers.CharField(source="row.phase")
    reason = serializers.CharField(source="row.reason")
    message = serializers.CharField(source="row.message")
    fix = serializers.CharField(source="row.fix", help_text="What to do about it")
    phase_since = serializers.DateTimeField(source="row.phase_since")
    node = serializers.CharField(source="row.node.name", allow_null=True, default=None)
    unreachable = serializers.BooleanField(help_text="Its node's lease has run out: the phase is the last one known")
    port = serializers.IntegerField(source="row.port", allow_null=True)
    pid = serializers.IntegerField(source="row.pid", allow_null=True)
    progress = serializers.DictField(source="row.progress", help_text="What the engine's log tells of its start")
    exit_status = serializers.IntegerField(source="row.exit_status", allow_null=True)
    drain = DrainSerializer(allow_null=True)
    last_seen = serializers.DateTimeField(source="row.last_seen", allow_null=True)
    created_at = serializers.DateTimeField(source="row.created_at")
    ready_at = serializers.DateTimeField(source="row.ready_at", allow_null=True)
    ended_at = serializers.DateTimeField(source="row.ended_at", allow_null=True)


class ReplicaDetailSerializer(ReplicaSerializer):
    """A replica with its profile, engine, claim and moves."""

    profile = serializers.CharField(source="row.deployment.profile.name")
    engine = serializers.CharField(source="row.engine", allow_null=True, default=None)
    claim = serializers.DictField(source="row.claim")
    transitions = MoveSerializer(many=True)


class DeploymentSerializer(serializers.Serializer[Any]):
    """A deployment as lists show it."""

    id = serializers.UUIDField(source="row.pk")
    profile = serializers.CharField(source="row.profile.name")
    team = serializers.CharField(source="row.team.slug")
    revision = serializers.IntegerField(source="row.revision.number")
    model = serializers.CharField(source="row.revision.model_version")
    status = serializers.CharField(source="state.status")
    ready = serializers.IntegerField(source="state.ready")
    wanted = serializers.IntegerField(source="state.wanted")
    failed_slots = serializers.IntegerField(source="state.failed_slots", help_text="Given up after too many restarts")
    drain_seconds = serializers.IntegerField(source="row.drain_seconds")
    generation = serializers.IntegerField(source="row.generation")
    observed_generation = serializers.IntegerField(source="row.observed_generation")
    created_at = serializers.DateTimeField(source="row.created_at")


class DeploymentDetailSerializer(DeploymentSerializer):
    """A deployment with its replicas, its last failure and its moves, newest first."""

    replicas = ReplicaSerializer(many=True, help_text="Those that have not ended")
    last_failure = ReplicaSerializer(allow_null=True)
    transitions = MoveSerializer(many=True)


class DeploymentWriteSerializer(serializers.Serializer[Any]):
    """A wish. For a profile that is deployed already it changes the deployment."""

    profile = serializers.CharField(max_length=100)
    revision = serializers.IntegerField(min_value=1, required=False, help_text="Default: the newest")
    replicas = serializers.IntegerField(min_value=0, required=False, help_text="Default: as before, at least 1")
    drain_seconds = serializers.IntegerField(min_value=0, required=False, help_text="Default: as before, else 30")


class ScaleSerializer(serializers.Serializer[Any]):
    """How many replicas are wanted."""

    replicas = serializers.IntegerField(min_value=0)


class DrainWriteSerializer(serializers.Serializer[Any]):
    """How long requests in flight may take. Default: the deployment's own drain time."""

    drain_seconds = serializers.IntegerField(min_value=0, required=False)


class LogQuerySerializer(serializers.Serializer[Any]):
    """Which part of a log is asked for."""

    offset = serializers.IntegerField(min_value=0, default=0, help_text="Bytes from the start")
    limit = serializers.IntegerField(min_value=4, required=False, help_text="Bytes at most; 262144 is the most")
    tail = serializers.IntegerField(min_value=4, required=False, help_text="Bytes from the end instead of an offset")


class LogSerializer(serializers.Serializer[Any]):
    """Part of an engine's log. Follow it with ``offset`` = ``next_offset`` until ``ended``."""

    offset = serializers.IntegerField()
    next_offset = serializers.IntegerField()
    size = serializers.IntegerField()
    text = serializers.CharField()
    rotated = serializers.BooleanField(help_text="The log became shorter; this is its start")
    ended = serializers.BooleanField(help_text="The process has ended and nothing follows")
