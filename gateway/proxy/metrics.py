"""The gateway's own Prometheus metrics, and who may read them."""

import secrets
from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from gateway.proxy.accounting import GatewayReport, UsageRecord

CONTENT_TYPE = CONTENT_TYPE_LATEST.encode()
_LOOPBACK = frozenset({"127.0.0.1", "::1"})
_TTFT_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.15, 0.25, 0.5, 0.75, 1.0, 1.5, 2.5, 5.0, 10.0, 30.0, 60.0)
_E2E_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0)


def may_read(*, peer: str | None, token_sent: bytes | None, token: str | None) -> bool:
    """True for the bearer of the token, or, where no token is set, for peers on this host."""
    if token is None:
        return peer in _LOOPBACK
    return token_sent is not None and secrets.compare_digest(token_sent, token.encode())


class _StateCollector(Collector):
    """Gauges that are read from the gateway's state when they are asked for."""

    def __init__(self, state: Callable[[], GatewayReport]) -> None:
        self._state = state

    def describe(self) -> Iterator[Metric]:
        """Nothing: naming the metrics up front would need the state."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """The gateway's state as metrics; a value that is not known is left out."""
        state = self._state()
        in_flight = GaugeMetricFamily("forebay_gateway_in_flight", "Requests in flight.", labels=["replica"])
        busy = CounterMetricFamily(
            "forebay_gateway_busy_seconds", "Time with at least one request in flight.", labels=["replica"]
        )
        for replica_id, report in state.replicas.items():
            in_flight.add_metric([replica_id], report.in_flight)
            busy.add_metric([replica_id], report.busy_seconds)
        yield in_flight
        yield busy
        yield GaugeMetricFamily("forebay_gateway_usage_queued", "Usage records not stored yet.", state.usage_queued)
        yield CounterMetricFamily("forebay_gateway_usage_dropped", "Usage records lost.", state.usage_dropped)
        yield GaugeMetricFamily("forebay_gateway_valkey_up", "1 while Valkey answers.", state.valkey)
        for name, text, value in (
            ("forebay_gateway_table_version", "Version of the routing table in use.", state.table_version),
            ("forebay_gateway_table_age_seconds", "Time since a source confirmed the table.", state.table_age),
        ):
            if value is not None:
                yield GaugeMetricFamily(name, text, value)


class GatewayMetrics:
    """Counters and histograms of finished requests, in a registry of their own."""

    def __init__(self, state: Callable[[], GatewayReport]) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(_StateCollector(state))
        self._requests = Counter(
            "forebay_gateway_requests",
            "Finished requests; profile is empty where none was reached.",
            ["profile", "outcome", "status"],
            registry=self.registry,
        )
        self._tokens = Counter(
            "forebay_gateway_tokens", "Tokens that engines reported.", ["profile", "kind"], registry=self.registry
        )
        self._ttft = Histogram(
            "forebay_gateway_ttft_seconds",
            "Time to the first token, streamed requests only.",
            ["profile"],
            buckets=_TTFT_BUCKETS,
            registry=self.registry,
        )
        self._e2e = Histogram(
            "forebay_gateway_e2e_seconds",
            "Whole time of completed requests.",
            ["profile"],
            buckets=_E2E_BUCKETS,
            registry=self.registry,
        )

    def observe(self, record: UsageRecord) -> None:
        """Count one finished request. Profile names come from the table, so labels stay few."""
        profile = record.profile or ""
        self._requests.labels(profile, record.outcome, str(record.status)).inc()
        if record.outcome == "completed":
            self._e2e.labels(profile).observe(record.e2e)
        if record.ttft is not None:
            self._ttft.labels(profile).observe(record.ttft)
        for kind, count in (("prompt", record.prompt_tokens), ("completion", record.completion_tokens)):
            if count is not None:
                self._tokens.labels(profile, kind).inc(count)

    def render(self) -> bytes:
        """The metrics in Prometheus' text format."""
        return generate_latest(self.registry)
