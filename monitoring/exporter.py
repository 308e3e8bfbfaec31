"""The control plane's own /metrics: replicas, deployments, the monitor's lag, in Prometheus' text form."""

import hmac
import logging
import time
from collections import Counter
from collections.abc import Iterator

import redis
from django.conf import settings
from django.db.models import Count
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from monitoring.ingest import CURSOR
from monitoring.models import IngestCursor
from monitoring.publish import read_status
from monitoring.readers.usage import gateway_reports
from profiles_app.models import Deployment, Replica
from profiles_app.states import ReplicaPhase

logger = logging.getLogger(__name__)


class ControlPlaneCollector(Collector):
    """Reads everything at the moment it is asked; what cannot be read is absent, never 0."""

    def __init__(self, *, client: redis.Redis, now: float) -> None:
        self._client = client
        self._now = now

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of the databases, then those of the broker where it answers."""
        yield from _database_metrics()
        try:
            yield from _broker_metrics(self._client, self._now)
        except redis.RedisError as error:
            logger.info("metrics without the broker: %s", error)
            yield GaugeMetricFamily("forebay_broker_up", "Whether the broker answered", value=0)
        else:
            yield GaugeMetricFamily("forebay_broker_up", "Whether the broker answered", value=1)


def _database_metrics() -> Iterator[Metric]:
    phases = Counter(dict(Replica.objects.values_list("phase").annotate(Count("id"))))
    replicas = GaugeMetricFamily("forebay_replicas", "Replicas by phase", labels=["phase"])
    for phase in ReplicaPhase:
        replicas.add_metric([phase.value], phases[phase.value])
    yield replicas
    yield GaugeMetricFamily("forebay_deployments", "Deployments", value=Deployment.objects.count())
    cursor = IngestCursor.objects.filter(pk=CURSOR).first()
    if cursor is not None:
        yield CounterMetricFamily("forebay_usage_ingested", "Usage records stored", value=cursor.ingested)
        yield CounterMetricFamily("forebay_usage_duplicates", "Usage records met twice", value=cursor.duplicates)
        yield CounterMetricFamily("forebay_usage_malformed", "Unreadable usage entries", value=cursor.malformed)


def _broker_metrics(client: redis.Redis, now: float) -> Iterator[Metric]:
    status = read_status(client)
    yield GaugeMetricFamily("forebay_monitor_up", "Whether a monitor holds the lease", value=status is not None)
    if status is not None:
        lag = status["lag_seconds"]
        yield GaugeMetricFamily("forebay_ingest_lag_seconds", "Age of the oldest usage entry not stored", value=lag)
        yield GaugeMetricFamily("forebay_monitor_age_seconds", "Time since the last pass", value=now - status["at"])
    reports = gateway_reports(client)
    yield GaugeMetricFamily("forebay_gateways", "Gateway processes with a live lease", value=len(reports))
    dropped = sum(int(report.get("usage_dropped") or 0) for report in reports)
    yield GaugeMetricFamily("forebay_usage_dropped", "Usage records dropped by the live gateways", value=dropped)
    queued = sum(int(report.get("usage_queued") or 0) for report in reports)
    yield GaugeMetricFamily("forebay_usage_queued", "Usage records that gateways hold back", value=queued)


def _allowed(request: HttpRequest) -> bool:
    """Whether the request carries the metrics token, or a superuser's session."""
    token = settings.FOREBAY.metrics_token
    given = request.headers.get("Authorization", "").removeprefix("Bearer ")
    if token and hmac.compare_digest(given.encode(), token.encode()):
        return True
    return request.user.is_authenticated and request.user.is_active and request.user.is_superuser


@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Answer a scrape; 403 without the token or a superuser's session."""
    if not _allowed(request):
        return HttpResponse("403: send the metrics token as a bearer token\n", status=403, content_type="text/plain")
    registry = CollectorRegistry(auto_describe=False)
    client = redis.Redis.from_url(settings.FOREBAY_DATA_URL, socket_timeout=2, socket_connect_timeout=2)
    try:
        registry.register(ControlPlaneCollector(client=client, now=time.time()))
        return HttpResponse(generate_latest(registry), content_type=CONTENT_TYPE_LATEST)
    finally:
        client.close()
