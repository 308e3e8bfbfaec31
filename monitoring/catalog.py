"""Names every metric that is measured, stored or drawn: unit, kind, chart, and how old is stale."""

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """How values of a metric are combined over time."""

    QUANTILE = "quantile"  # from merged sketches, never from averages
    RATE = "rate"  # a count over the length of the step
    HIGHEST = "highest"  # the highest value seen in the step
    MONEY = "money"  # US dollars a minute
    COUNT = "count"  # how many samples stand behind the step


@dataclass(frozen=True, slots=True)
class Metric:
    """One row of the catalogue. `unit` is the stored unit: s, 1/s, 1, USD/min or ratio (0 to 1)."""

    name: str
    label: str
    unit: str
    kind: Kind
    chart: str
    stale_seconds: float


@dataclass(frozen=True, slots=True)
class Chart:
    """One figure of the live page; `drawn` are lines, `listed` appear in its table only."""

    name: str
    title: str
    unit: str
    drawn: tuple[str, ...]
    listed: tuple[str, ...]
    height: int


# Usage follows within a second or two of a request's end; engines are scraped each second.
_USAGE_STALE = 10.0
_SCRAPE_STALE = 5.0

METRICS: tuple[Metric, ...] = (
    Metric("ttft_p50", "P50", "s", Kind.QUANTILE, "ttft", _USAGE_STALE),
    Metric("ttft_p95", "P95", "s", Kind.QUANTILE, "ttft", _USAGE_STALE),
    Metric("ttft_p99", "P99", "s", Kind.QUANTILE, "ttft", _USAGE_STALE),
    Metric("ttft_count", "Samples", "1", Kind.COUNT, "ttft", _USAGE_STALE),
    Metric("e2e_p50", "P50", "s", Kind.QUANTILE, "e2e", _USAGE_STALE),
    Metric("e2e_p95", "P95", "s", Kind.QUANTILE, "e2e", _USAGE_STALE),
    Metric("e2e_p99", "P99", "s", Kind.QUANTILE, "e2e", _USAGE_STALE),
    Metric("e2e_count", "Samples", "1", Kind.COUNT, "e2e", _USAGE_STALE),
    Metric("tokens_per_second", "output", "1/s", Kind.RATE, "throughput", _USAGE_STALE),
    Metric("prompt_tokens_per_second", "prompt", "1/s", Kind.RATE, "throughput", _USAGE_STALE),
    Metric("engine_tokens_per_second", "engine", "1/s", Kind.RATE, "throughput", _SCRAPE_STALE),
    Metric("requests_per_second", "requests", "1/s", Kind.RATE, "throughput", _USAGE_STALE),
    Metric("requests_peak", "busiest second", "1/s", Kind.HIGHEST, "throughput", _USAGE_STALE),
    Metric("errors_per_second", "errors", "1/s", Kind.RATE, "throughput", _USAGE_STALE),
    Metric("cost_per_minute", "busy", "USD/min", Kind.MONEY, "cost", _SCRAPE_STALE),
    Metric("idle_cost_per_minute", "idle", "USD/min", Kind.MONEY, "cost", _SCRAPE_STALE),
    Metric("running", "running", "1", Kind.HIGHEST, "queue", _SCRAPE_STALE),
    Metric("waiting", "waiting", "1", Kind.HIGHEST, "queue", _SCRAPE_STALE),
    Metric("kv_usage", "in use", "ratio", Kind.HIGHEST, "kv", _SCRAPE_STALE),
)

BY_NAME: dict[str, Metric] = {metric.name: metric for metric in METRICS}

CHARTS: tuple[Chart, ...] = (
    Chart("ttft", "Time to first token", "s", ("ttft_p99", "ttft_p95", "ttft_p50"), ("ttft_count",), 220),
    Chart("e2e", "Whole answer", "s", ("e2e_p99", "e2e_p95", "e2e_p50"), ("e2e_count",), 220),
    Chart(
        "throughput",
        "Tokens a second",
        "1/s",
        ("tokens_per_second", "prompt_tokens_per_second"),
        ("engine_tokens_per_second", "requests_per_second", "requests_peak", "errors_per_second"),
        190,
    ),
    Chart("cost", "Cost a minute", "USD/min", ("cost_per_minute", "idle_cost_per_minute"), (), 190),
    Chart("queue", "Running and waiting", "1", ("running", "waiting"), (), 190),
    Chart("kv", "KV cache in use", "ratio", ("kv_usage",), (), 190),
)

CHART_BY_NAME: dict[str, Chart] = {chart.name: chart for chart in CHARTS}

QUANTILES: dict[str, float] = {"p50": 0.50, "p95": 0.95, "p99": 0.99}

# Below this many samples a P99 rests on fewer than five values, so its count is always shown.
P99_SOLID_SAMPLES = 500
