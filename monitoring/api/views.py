"""Views of monitoring's REST endpoints: read the query, call one function, answer."""

import time
from typing import Any

from django.core.cache import cache
from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import generics
from rest_framework.pagination import CursorPagination
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer
from rest_framework.views import APIView

from gateway.models import UsageRecord
from monitoring import selectors, services
from monitoring.api.serializers import (
    LiveAnswer,
    LiveQuery,
    PriceSerializer,
    UsageQuery,
    UsageSerializer,
)
from monitoring.catalog import CHART_BY_NAME
from monitoring.charts import panels
from monitoring.models import Price
from profiles_app.models import Profile
from profiles_app.selectors import profile_by_name, viewer_for

# However many screens look at a profile, its series are computed once a second.
CACHE_SECONDS = 1


class LiveView(APIView):
    """A profile's live series: what every live page is rebuilt from."""

    @extend_schema(parameters=[LiveQuery], responses=LiveAnswer)
    def get(self, request: Request, profile: str) -> Response:
        """Return the last `minutes` of the profile, at most 300 points a series."""
        query = LiveQuery(data=request.query_params)
        query.is_valid(raise_exception=True)
        viewer = viewer_for(request.user)
        row = profile_by_name(viewer, profile)
        minutes = query.validated_data["minutes"]
        tables = sorted(set(query.validated_data["tables"].split(",")) & CHART_BY_NAME.keys())
        moment = int(time.time())
        key = f"live:{row.pk}:{minutes}:{'-'.join(tables)}:{moment}"
        answer = cache.get(key)
        if answer is None:
            answer = _live(request, row, minutes=minutes, tables=tables, now=float(moment))
            cache.set(key, answer, CACHE_SECONDS)
        return Response(answer)


def _live(request: Request, profile: Profile, *, minutes: int, tables: list[str], now: float) -> dict[str, Any]:
    viewer = viewer_for(request.user)
    series = selectors.live_series(viewer=viewer, profile=profile.name, minutes=minutes, now=now)
    data = selectors.live_now(viewer=viewer, profile=profile.name, now=now)
    promised = selectors.promises(profile)
    return {
        "profile": profile.name,
        "minutes": minutes,
        "step": series.step,
        "times": list(series.times),
        "series": {name: list(values) for name, values in series.values.items()},
        "gaps": [list(gap) for gap in series.gaps],
        "now": data,
        "verdict": selectors.verdict_row(profile=profile.name, data=data, promised=promised),
        "panels": panels(series, promises=promised, tables=tables),
    }


class UsagePagination(CursorPagination):
    """Pages by key: requests that arrive meanwhile move nothing."""

    ordering = ("-at", "-id")
    page_size = 50
    max_page_size = 500
    page_size_query_param = "page_size"


class UsageView(generics.ListAPIView[UsageRecord]):
    """Requests of the viewer's teams, newest first."""

    serializer_class = UsageSerializer
    pagination_class = UsagePagination
    filter_backends = ()
    queryset = UsageRecord.objects.none()

    @extend_schema(parameters=[UsageQuery])
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Return a page, filtered by profile, outcome and time."""
        return super().get(request, *args, **kwargs)

    def get_queryset(self) -> QuerySet[UsageRecord]:
        """Return what the viewer may see and the filters let through."""
        query = UsageQuery(data=self.request.query_params)
        query.is_valid(raise_exception=True)
        return selectors.usage_records(viewer=viewer_for(self.request.user), **query.validated_data)


class PriceView(generics.ListCreateAPIView[Price]):
    """Price rows: listed for members, added by admins, never changed."""

    serializer_class = PriceSerializer
    filter_backends = ()
    queryset = Price.objects.none()

    def get_queryset(self) -> QuerySet[Price]:
        """Return the rows that the viewer may see."""
        return selectors.prices(viewer_for(self.request.user))

    def perform_create(self, serializer: BaseSerializer[Price]) -> None:
        """Add the row through the service, which checks the role."""
        serializer.instance = services.price_create(viewer_for(self.request.user), **serializer.validated_data)
