"""Builds the live page's figures as Plotly JSON, one sentence and one table for each.

Colours are token names, `var(--q99)`; the browser puts the theme's values in their place, so that a
change of theme is a redraw and no request.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from monitoring.catalog import BY_NAME, CHARTS, P99_SOLID_SAMPLES, Chart, Kind, Metric
from monitoring.series import Series, current
from monitoring.traces import areas, axis_value, gap_trace, line, moments, over
from monitoring.words import clock, count, money, number, share, span

_AXIS: dict[str, Any] = {
    "showline": False,
    "zeroline": False,
    "ticks": "",
    "gridcolor": "var(--line)",
    "gridwidth": 1,
    "fixedrange": True,
    "tickfont": {"size": 11, "color": "var(--ink-3)"},
}


def write(metric: Metric, value: float | None) -> str:
    """Return a value as people read it, with its unit."""
    if metric.unit == "s":
        return span(value)
    if metric.unit == "USD/min":
        return money(value)
    if metric.unit == "ratio":
        return share(value)
    return count(value) if metric.kind is Kind.COUNT else number(value)


def _top(chart: Chart, series: Series, promise: float | None) -> float:
    """Return the upper end of the axis: a little over the highest value drawn, the promise included."""
    highest = [
        [axis_value(BY_NAME[name], value) or 0.0 for value in series.values[name]] or [0.0] for name in chart.drawn
    ]
    peak = max(map(sum, zip(*highest, strict=True))) if chart.name == "cost" else max(map(max, highest))
    return 100.0 if chart.name == "kv" else max(peak, promise or 0.0) * 1.08 or 1.0


def _promise_marks(promise: float) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the shapes and annotations of a promise: a dotted line and its words at the left."""
    line = {"color": "var(--slo)", "width": 1.5, "dash": "1.5px,3px"}
    shape = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": promise, "y1": promise, "line": line}
    words = {
        "xref": "paper",
        "x": 0,
        "xanchor": "left",
        "xshift": 4,
        "y": promise,
        "yanchor": "bottom",
        "text": f"promise {span(promise / 1000.0)}",
        "showarrow": False,
        "font": {"size": 11, "color": "var(--slo)"},
    }
    return [shape], [words]


def _deployment_marks(marks: Sequence[tuple[float, str]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the shapes and flags of revisions that appear in the range."""
    shapes, flags = [], []
    for at, name in marks:
        (moment,) = moments([at])
        line = {"color": "var(--ink)", "width": 1}
        shapes.append({"type": "line", "yref": "paper", "x0": moment, "x1": moment, "y0": 0, "y1": 1, "line": line})
        flags.append(
            {
                "x": moment,
                "xanchor": "left",
                "yref": "paper",
                "y": 1,
                "yanchor": "middle",
                "text": name,
                "showarrow": False,
                "bgcolor": "var(--ink)",
                "borderpad": 2,
                "font": {"size": 10, "color": "var(--canvas)"},
            }
        )
    return shapes, flags


def _labels(chart: Chart, series: Series, *, top: float) -> list[dict[str, Any]]:
    """Return direct labels at the right end: name and value, moved apart where they would touch."""
    ends = []
    below = 0.0
    for name in chart.drawn:
        metric = BY_NAME[name]
        value = current(series.values[name], step=series.step)
        drawn = axis_value(metric, value)
        if drawn is None:
            continue
        # A stacked area is labelled at its middle.
        ends.append((below + drawn / 2 if chart.name == "cost" else drawn, f"{metric.label} {write(metric, value)}"))
        below += drawn
    ends.sort()
    room = top * 14.0 / (chart.height - 40.0)
    labels: list[dict[str, Any]] = []
    floor = 0.0
    for wanted, text in ends:
        y = max(wanted, floor)
        floor = y + room
        labels.append(
            {
                "xref": "paper",
                "x": 1,
                "xshift": 8,
                "xanchor": "left",
                "y": y,
                "yanchor": "middle",
                "text": text,
                "showarrow": False,
                "align": "left",
                "font": {"size": 11, "color": "var(--ink-2)"},
            }
        )
    return labels


def _y_axis(chart: Chart, *, top: float) -> dict[str, Any]:
    axis = {**_AXIS, "nticks": 5, "rangemode": "tozero", "range": [0, top]}
    if chart.unit == "ratio":
        return {**axis, "range": [0, 100], "tickvals": [0, 50, 100], "ticksuffix": " %"}
    if chart.unit == "USD/min":
        return {**axis, "tickprefix": "$"}
    return axis


def _x_axis(series: Series) -> dict[str, Any]:
    axis = {
        **_AXIS,
        "type": "date",
        "showgrid": False,
        "showline": True,
        "linecolor": "var(--line-2)",
        "nticks": 5,
        "tickformat": "%H:%M",
        "hoverformat": "%H:%M:%S",
        "showspikes": True,
        "spikemode": "across",
        "spikethickness": 1,
        "spikedash": "solid",
        "spikecolor": "var(--control)",
    }
    if series.times:
        axis["range"] = moments([series.times[0], series.times[-1] + series.step])
    return axis


def _traces(chart: Chart, series: Series, *, top: float, promise: float | None) -> list[go.Scatter]:
    if chart.name == "cost":
        traces = areas(chart, series)
    else:
        traces = [line(BY_NAME[name], series.times, series.values[name]) for name in chart.drawn]
    if promise is not None:
        metric = BY_NAME[chart.drawn[0]]
        drawn = [axis_value(metric, value) for value in series.values[metric.name]]
        traces.insert(0, over(series, drawn, promise=promise))
    if series.gaps:
        traces.append(gap_trace(series.gaps, top=top))
    return traces


def figure(chart: Chart, series: Series, *, promise: float | None = None) -> dict[str, Any]:
    """Return one chart as Plotly JSON (`data` and `layout`), ready for `Plotly.react`.

    `promise` is the promised P99 in seconds; only the latency charts have one.
    """
    promised = None if promise is None else promise * 1000.0
    top = _top(chart, series, promised)
    shapes, notes = ([], []) if promised is None else _promise_marks(promised)
    flag_shapes, flags = _deployment_marks(series.marks)
    layout = {
        "font": {"family": "Inter, system-ui, sans-serif", "size": 11, "color": "var(--ink-3)"},
        "showlegend": False,
        "height": chart.height,
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "margin": {"l": 44, "r": 96, "t": 16, "b": 24},
        "hovermode": "x unified",
        "hoverlabel": {
            "bgcolor": "var(--raised)",
            "bordercolor": "var(--line-2)",
            "font": {"size": 12, "color": "var(--ink)"},
        },
        "xaxis": _x_axis(series),
        "yaxis": _y_axis(chart, top=top),
        "uirevision": "keep",
        "annotations": [*_labels(chart, series, top=top), *notes, *flags],
        "shapes": [*shapes, *flag_shapes],
    }
    traces = _traces(chart, series, top=top, promise=promised)
    drawn: dict[str, Any] = go.Figure(data=traces, layout=layout).to_plotly_json()
    # Plotly's own template names colours that are not tokens.
    drawn["layout"].pop("template", None)
    return {"data": [dict(trace) for trace in drawn["data"]], "layout": drawn["layout"]}


def headline(chart: Chart, series: Series) -> str:
    """Return the figure's value now, or "no data"."""
    lead = [current(series.values[name], step=series.step) for name in chart.drawn]
    if all(value is None for value in lead):
        return "no price row" if chart.name == "cost" else "no data"
    first = write(BY_NAME[chart.drawn[0]], lead[0])
    if chart.name == "queue":
        return f"{first} + {write(BY_NAME[chart.drawn[1]], lead[1])}"
    return f"{first} a second" if chart.name == "throughput" else first


def sentence(chart: Chart, series: Series) -> str:
    """Return one sentence on the chart: what it shows, how it moved, and what is missing."""
    name = chart.drawn[0]
    metric = BY_NAME[name]
    known = [value for value in series.values[name] if value is not None]
    parts = []
    if known:
        label = metric.label if metric.kind is Kind.QUANTILE else metric.label.capitalize()
        parts.append(f"{label} from {write(metric, min(known))} to {write(metric, max(known))} in this range.")
    else:
        parts.append("Nothing measured in this range.")
    if f"{chart.name}_count" in series.values:
        samples = int(sum(value or 0 for value in series.values[f"{chart.name}_count"]))
        few = ", too few for a firm P99" if 0 < samples < P99_SOLID_SAMPLES else ""
        parts.append(f"{count(samples)} samples{few}.")
    if series.gaps:
        missing = sum(end - start for start, end in series.gaps)
        parts.append(f"No samples for {span(missing)}.")
    return " ".join(parts)


def table(chart: Chart, series: Series) -> dict[str, Any]:
    """Return the chart's numbers as text: `head` and `rows`, newest first; a gap reads "no data"."""
    names = (*chart.drawn, *chart.listed)
    head = ["Time", *(BY_NAME[name].label.capitalize() for name in names)]
    columns = [series.values[name] for name in names]
    rows = [
        [clock(at), *(write(BY_NAME[name], column[i]) for name, column in zip(names, columns, strict=True))]
        for i, at in enumerate(series.times)
    ]
    return {"head": head, "rows": rows[::-1]}


def panels(
    series: Series, *, promises: Mapping[str, float | None], tables: Collection[str] = ()
) -> list[dict[str, Any]]:
    """Return every chart of the live page: name, title, headline, sentence, figure, and table where asked for.

    `promises` are promised P99 latencies in seconds, by chart name; `tables` names charts.
    """
    return [
        {
            "name": chart.name,
            "title": chart.title,
            "now": headline(chart, series),
            "say": sentence(chart, series),
            "figure": figure(chart, series, promise=promises.get(chart.name)),
            "table": table(chart, series) if chart.name in tables else None,
        }
        for chart in CHARTS
    ]
