"""The API's frame: errors to HTTP, pagination, request ids."""

import logging
from typing import Any

from rest_framework import exceptions
from rest_framework.pagination import PageNumberPagination
from rest_framework.response import Response
from rest_framework.views import exception_handler as drf_exception_handler

from profiles_app.errors import DomainError

logger = logging.getLogger(__name__)


class Pagination(PageNumberPagination):
    """Pages of 50, or as many as ``page_size`` asks, at most 500."""

    page_size_query_param = "page_size"
    max_page_size = 500


def error_body(code: str, message: str, *, field: str | None = None, details: Any = None) -> dict[str, Any]:
    """The one shape of an error: stable code, sentence, the field it is about, and further details."""
    return {"error": {"code": code, "message": message, "field": field, "details": details}}


def exception_handler(error: Exception, context: dict[str, Any]) -> Response | None:
    """Turn refusals and DRF's own exceptions into the one error shape. Accidents stay accidents (500)."""
    if isinstance(error, DomainError):
        problems = getattr(error, "problems", None)
        details = [{"field": path, "message": text} for path, text in problems] if problems else None
        return Response(error_body(error.code, error.message, field=error.field, details=details), status=error.status)
    response = drf_exception_handler(error, context)
    if response is None:
        return None
    if isinstance(error, exceptions.ValidationError):
        response.data = error_body("invalid", "The request has invalid fields.", details=error.get_full_details())
    elif isinstance(error, exceptions.APIException):
        response.data = error_body(str(error.get_codes()), str(error.detail))
    else:
        response.data = error_body("not_found", "Not found.")
    return response
