"""What every endpoint shares: who asks, bounded bodies, pages of a list, and creates that are safe to repeat."""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter
from rest_framework.generics import GenericAPIView
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer, Serializer

from profiles_app.errors import DomainError
from profiles_app.selectors import Viewer, viewer_for
from profiles_app.services.idempotency import (
    Answer,
    idempotency_begin,
    idempotency_finish,
    idempotency_release,
    request_hash,
)

MOST_BODY_BYTES = 1024 * 1024
KEY_HEADER = "Idempotency-Key"
REPLAYED_HEADER = "Idempotency-Replayed"
IDEMPOTENCY_KEY = OpenApiParameter(
    KEY_HEADER,
    str,
    OpenApiParameter.HEADER,
    description="Makes the create safe to repeat for 24 hours: the same key with the same body gets the first answer.",
)


class Api(GenericAPIView[Any]):
    """Base of the endpoints: each parses, calls one service or selector, and formats."""

    pagination_class: Any = GenericAPIView.pagination_class

    @cached_property
    def viewer(self) -> Viewer:
        """Who asks, with their roles."""
        return viewer_for(self.request.user)

    @property
    def now(self) -> datetime:
        """The moment of this request."""
        return timezone.now()

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Refuse a body that is larger than any honest one before it is read."""
        super().initial(request, *args, **kwargs)
        length = str(request.META.get("CONTENT_LENGTH") or 0)
        if not length.isdigit() or int(length) > MOST_BODY_BYTES:
            raise DomainError("body_too_large", f"A body may have {MOST_BODY_BYTES} bytes at most.", status=413)

    def read(self, serializer: type[Serializer[Any]], data: Any = None) -> dict[str, Any]:
        """The request's body (or ``data``), checked for shape. Raises ValidationError."""
        shape = serializer(data=self.request.data if data is None else data)
        shape.is_valid(raise_exception=True)
        return dict(shape.validated_data)

    def page(
        self,
        rows: QuerySet[Any] | Sequence[Any],
        serializer: type[BaseSerializer[Any]],
        *,
        prepare: Callable[[list[Any]], list[Any]] = list,
    ) -> Response:
        """One page of ``rows``; ``prepare`` adds to the page's rows what is computed for all of them at once."""
        # Every endpoint has the project's paginator, so a page is never None.
        found = self.paginate_queryset(rows) or []
        return self.get_paginated_response(serializer(prepare(list(found)), many=True).data)


class Idempotent(Api):
    """An endpoint whose POST may carry an Idempotency-Key."""

    def create_once(self, work: Callable[[], Response]) -> Response:
        """Run ``work``, or answer as its first run did. A refusal is not kept: it changed nothing."""
        key = self.request.headers.get(KEY_HEADER)
        if key is None:
            return work()
        user_id = int(self.request.user.pk or 0)
        digest = request_hash(method="POST", path=self.request.path, data=self.request.data)
        answer = idempotency_begin(user_id=user_id, key=key, request_hash=digest, now=self.now)
        if answer is not None:
            return Response(answer.body, status=answer.status, headers={REPLAYED_HEADER: "true"})
        try:
            with transaction.atomic():
                response = work()
                body = self.kept_body(json.loads(JSONRenderer().render(response.data)))
                idempotency_finish(user_id=user_id, key=key, answer=Answer(response.status_code, body))
        except BaseException:
            idempotency_release(user_id=user_id, key=key)
            raise
        return response

    def kept_body(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """What of the answer is stored for a repetition. Overridden where the answer holds a secret."""
        return body
