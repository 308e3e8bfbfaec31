"""Whether this web process lives, and whether it can serve."""

from django.db import DatabaseError, connections
from django.http import HttpRequest, JsonResponse


def livez(request: HttpRequest) -> JsonResponse:
    """The process answers. Tells nothing else."""
    return JsonResponse({"live": True})


def readyz(request: HttpRequest) -> JsonResponse:
    """Both databases answer; 503 while one does not."""
    try:
        for alias in ("default", "telemetry"):
            with connections[alias].cursor() as cursor:
                cursor.execute("SELECT 1")
    except DatabaseError:
        return JsonResponse({"ready": False}, status=503)
    return JsonResponse({"ready": True})
