"""Shapes of API keys."""

from typing import Any

from rest_framework import serializers

from gateway.models import ApiKey

ALL = "*"


class KeySerializer(serializers.Serializer[Any]):
    """A key without its secret."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    team = serializers.CharField(source="team.slug")
    prefix = serializers.CharField(help_text="How the key begins")
    profiles = serializers.SerializerMethodField()
    max_concurrency = serializers.IntegerField(allow_null=True)
    expires_at = serializers.DateTimeField(allow_null=True)
    revoked_at = serializers.DateTimeField(allow_null=True)
    created_at = serializers.DateTimeField()

    def get_profiles(self, row: ApiKey) -> list[str]:
        """Names of the profiles that the key may use; ``*``: all of its team."""
        return [ALL] if row.all_profiles else [profile.name for profile in row.profiles.all()]


class KeyCreatedSerializer(KeySerializer):
    """A new key. The secret is in this answer and nowhere else."""

    key = serializers.CharField(allow_null=True, read_only=True)
    message = serializers.CharField(read_only=True)

    def to_representation(self, instance: tuple[ApiKey, str]) -> dict[str, Any]:
        """The row's fields, the secret, and what to do with it."""
        row, secret = instance
        shown = KeySerializer(row).data
        return {**shown, "key": secret, "message": "Keep the key: it is shown this once."}


class KeyWriteSerializer(serializers.Serializer[Any]):
    """A key to make."""

    name = serializers.CharField(max_length=100)
    team = serializers.CharField(required=False, help_text="Default: your only team, else default")
    profiles = serializers.ListField(
        child=serializers.CharField(max_length=100),
        max_length=100,
        help_text='Names of profiles, or ["*"] for all of the team',
    )
    max_concurrency = serializers.IntegerField(min_value=1, required=False, allow_null=True)
    expires_at = serializers.DateTimeField(required=False, allow_null=True)
