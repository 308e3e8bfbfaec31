"""The shape of every error, for the schema."""

from typing import Any

from rest_framework import serializers

from profiles_app.api.serializers.profiles import ProblemSerializer


class ErrorSerializer(serializers.Serializer[Any]):
    """What is wrong: a stable code, a sentence that says what to do, the field, and one detail each."""

    code = serializers.CharField()
    message = serializers.CharField()
    field = serializers.CharField(allow_null=True)
    details = ProblemSerializer(many=True, allow_null=True)


class ErrorAnswerSerializer(serializers.Serializer[Any]):
    """The body of every answer of 400 and above."""

    error = ErrorSerializer()


READ: dict[int, Any] = {401: ErrorAnswerSerializer, 404: ErrorAnswerSerializer}
WRITE: dict[int, Any] = {
    400: ErrorAnswerSerializer,
    401: ErrorAnswerSerializer,
    403: ErrorAnswerSerializer,
    404: ErrorAnswerSerializer,
    409: ErrorAnswerSerializer,
    422: ErrorAnswerSerializer,
}
