"""Shapes of monitoring's REST bodies."""

from django.utils import timezone
from rest_framework import serializers

from gateway.models import UsageRecord
from monitoring.models import Price
from monitoring.selectors import LONGEST_MINUTES


class LiveQuery(serializers.Serializer[None]):
    """What a live request may ask for."""

    minutes = serializers.IntegerField(min_value=1, max_value=LONGEST_MINUTES, default=15)
    tables = serializers.CharField(max_length=200, default="", allow_blank=True)


class LiveAnswer(serializers.Serializer[None]):
    """A profile's series, figures and last minute. Every list is as long as `times`; null is a gap."""

    profile = serializers.CharField()
    minutes = serializers.IntegerField()
    step = serializers.IntegerField()
    times = serializers.ListField(child=serializers.FloatField())
    series = serializers.DictField(child=serializers.ListField(child=serializers.FloatField(allow_null=True)))
    gaps = serializers.ListField(child=serializers.ListField(child=serializers.FloatField()))
    now = serializers.DictField(allow_null=True)
    verdict = serializers.DictField()
    panels = serializers.ListField(child=serializers.DictField())


class UsageQuery(serializers.Serializer[None]):
    """Filters of the request list."""

    profile = serializers.CharField(required=False)
    outcome = serializers.ChoiceField(
        choices=["completed", "cut", "client_gone", "upstream_error", "refused"], required=False
    )
    since = serializers.DateTimeField(required=False)


class UsageSerializer(serializers.ModelSerializer[UsageRecord]):
    """One request, as the gateway saw it."""

    class Meta:
        model = UsageRecord
        fields = (
            "id",
            "client_request_id",
            "at",
            "team",
            "key_id",
            "profile",
            "revision",
            "replica",
            "endpoint",
            "streamed",
            "status",
            "outcome",
            "error_code",
            "prompt_tokens",
            "cached_tokens",
            "completion_tokens",
            "ttft",
            "e2e",
        )
        read_only_fields = fields


class PriceSerializer(serializers.ModelSerializer[Price]):
    """One price row."""

    usd = serializers.DecimalField(max_digits=14, decimal_places=6)
    valid_from = serializers.DateTimeField(default=timezone.now, help_text="A whole minute; now where it is left out")

    class Meta:
        model = Price
        fields = (
            "id",
            "accelerator",
            "unit",
            "usd",
            "currency",
            "source",
            "as_of",
            "valid_from",
            "note",
            "created_at",
        )
        read_only_fields = ("id", "unit", "currency", "created_at")
