"""The traces of the live page's figures: lines, areas, hatched gaps, what passed a promise. Pure.

Colours are token names; the browser puts the theme's values in their place.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import plotly.graph_objects as go

from monitoring.catalog import BY_NAME, Chart, Metric
from monitoring.series import Series, Values
from monitoring.words import time_of

_LINES: dict[str, tuple[str, float]] = {
    "ttft_p99": ("var(--q99)", 2.0),
    "ttft_p95": ("var(--q95)", 1.5),
    "ttft_p50": ("var(--q50)", 1.25),
    "e2e_p99": ("var(--q99)", 2.0),
    "e2e_p95": ("var(--q95)", 1.5),
    "e2e_p50": ("var(--q50)", 1.25),
    "tokens_per_second": ("var(--data-1)", 1.75),
    "prompt_tokens_per_second": ("var(--data-2)", 1.5),
    "running": ("var(--data-1)", 1.75),
    "waiting": ("var(--data-3)", 1.5),
    "kv_usage": ("var(--data-1)", 1.75),
}


def axis_value(metric: Metric, value: float | None) -> float | None:
    """Return the number drawn: milliseconds and percent on the axes, as the page writes them."""
    if value is None:
        return None
    factor = {"s": 1000.0, "ratio": 100.0}.get(metric.unit, 1.0)
    return round(value * factor, 6)


def moments(times: Sequence[float]) -> list[str]:
    return [time_of(at).strftime("%Y-%m-%dT%H:%M:%SZ") for at in times]


def line(metric: Metric, times: Sequence[float], values: Values) -> go.Scatter:
    color, width = _LINES[metric.name]
    return go.Scatter(
        x=moments(times),
        y=[axis_value(metric, value) for value in values],
        name=metric.label,
        meta=metric.name,
        connectgaps=False,
        line={"color": color, "width": width},
        # A lone sample between two gaps would draw nothing as a line.
        **_lone_points(values, color=color),
    )


def _lone_points(values: Values, *, color: str) -> dict[str, Any]:
    """Return a mode and markers that show exactly the samples whose neighbours are gaps."""
    padded = [None, *values, None]
    lone = [
        padded[i] is not None and padded[i - 1] is None and padded[i + 1] is None for i in range(1, len(padded) - 1)
    ]
    if not any(lone):
        return {"mode": "lines"}
    return {"mode": "lines+markers", "marker": {"color": color, "size": [5 if is_lone else 0 for is_lone in lone]}}


def areas(chart: Chart, series: Series) -> list[go.Scatter]:
    """Return the stack of cost: what was held pale under an edge, the busy part of it solid.

    Plotly's own stacks and fills bridge gaps, so each unbroken run is a closed shape of its own.
    """
    busy, idle = (series.values[name] for name in chart.drawn)
    held = [None if b is None or i is None else b + i for b, i in zip(busy, idle, strict=True)]
    return [
        _filled(series, held, color="var(--heat-1)"),
        _filled(series, busy, color="var(--fill-busy)"),
        _edge(series, held, shown=idle, name=chart.drawn[1], width=1.5),
        _edge(series, busy, shown=busy, name=chart.drawn[0], width=0.0),
    ]


def _filled(series: Series, values: Values, *, color: str) -> go.Scatter:
    """Return the area under the values, a closed shape for each unbroken run."""
    xs: list[str | None] = []
    ys: list[float | None] = []
    runs = groupby(zip(series.times, values, strict=True), key=lambda pair: pair[1] is None)
    for run in [list(pairs) for is_gap, pairs in runs if not is_gap]:
        times = [at for at, _ in run]
        tops = [value for _, value in run]
        xs += [*moments([times[0], *times, times[-1] + series.step, times[-1] + series.step]), None]
        ys += [0.0, *tops, tops[-1], 0.0, None]
    return go.Scatter(x=xs, y=ys, mode="none", meta="area", fill="toself", fillcolor=color, hoverinfo="skip")


def _edge(series: Series, drawn: Values, *, shown: Values, name: str, width: float) -> go.Scatter:
    """Return the upper edge of an area; hovering shows the part's own amount, not the stacked one."""
    return go.Scatter(
        x=moments(series.times),
        y=list(drawn),
        customdata=list(shown),
        hovertemplate="$%{customdata:.3g}",
        mode="lines",
        name=BY_NAME[name].label,
        meta=name,
        connectgaps=False,
        line={"color": "var(--data-1)", "width": width},
    )


def gap_trace(gaps: Sequence[tuple[float, float]], *, top: float) -> go.Scatter:
    """Return one hatched trace that covers every gap from the axis to `top`."""
    xs: list[str | None] = []
    ys: list[float | None] = []
    for start, end in gaps:
        first, last = moments([start, end])
        xs += [first, first, last, last, first, None]
        ys += [0.0, top, top, 0.0, 0.0, None]
    return go.Scatter(
        x=xs,
        y=ys,
        mode="none",
        name="no samples",
        meta="gap",
        fill="toself",
        hoverinfo="skip",
        fillcolor="var(--sunken)",
        fillpattern={
            "shape": "/",
            "size": 6,
            "solidity": 0.18,
            "fgcolor": "var(--control)",
            "bgcolor": "var(--sunken)",
        },
    )


def over(series: Series, values: Values, *, promise: float) -> go.Scatter:
    """Return the area between the promise and what passed it."""
    xs: list[str | None] = []
    ys: list[float | None] = []
    runs = groupby(zip(series.times, values, strict=True), key=lambda pair: pair[1] is None)
    for run in [list(pairs) for is_gap, pairs in runs if not is_gap]:
        instants = moments([at for at, _ in run])
        xs += [*instants, instants[-1], instants[0], None]
        ys += [*(max(value or 0.0, promise) for _, value in run), promise, promise, None]
    return go.Scatter(
        x=xs, y=ys, mode="none", meta="over", fill="toself", fillcolor="var(--bad)", opacity=0.16, hoverinfo="skip"
    )
