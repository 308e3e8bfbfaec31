"""Shapes of the caller, their token, and the host's own state."""

from typing import Any

from rest_framework import serializers


class MeSerializer(serializers.Serializer[Any]):
    """Who asks, and what they may do."""

    id = serializers.IntegerField(source="user_id")
    username = serializers.CharField()
    is_superuser = serializers.BooleanField()
    roles = serializers.DictField(child=serializers.CharField(), help_text="Role by team")
    teams = serializers.ListField(child=serializers.CharField())


class TokenWriteSerializer(serializers.Serializer[Any]):
    """Name and password, unless the request itself proves who asks."""

    username = serializers.CharField(max_length=150, required=False)
    password = serializers.CharField(max_length=1000, required=False, trim_whitespace=False, write_only=True)
    rotate = serializers.BooleanField(default=False, help_text="End the current token and make another")


class TokenSerializer(serializers.Serializer[Any]):
    """The API token: send it as ``Authorization: Token <token>``."""

    token = serializers.CharField()
    username = serializers.CharField()


class StatusSerializer(serializers.Serializer[Any]):
    """The set-up and the processes of the host that answers. Empty where nothing supervises."""

    version = serializers.CharField()
    node = serializers.CharField()
    setup = serializers.ListField(child=serializers.DictField())
    processes = serializers.ListField(child=serializers.DictField())
