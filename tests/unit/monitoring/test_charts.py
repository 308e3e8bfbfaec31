"""Figures, sentences and tables: gaps stay gaps, colours are tokens, the table says what the chart draws."""

import json
import re
from typing import Any

import pytest

from monitoring.catalog import BY_NAME, CHART_BY_NAME, CHARTS, METRICS
from monitoring.charts import figure, headline, panels, sentence, table
from monitoring.series import Series, current, gaps_of

TIMES = [1000.0, 1005.0, 1010.0, 1015.0]


def series(*, times: list[float] | None = None, **values: list[float | None]) -> Series:
    moments = TIMES if times is None else times
    empty: list[float | None] = [None] * len(moments)
    full = {metric.name: values.get(metric.name, empty) for metric in METRICS}
    known = [any(column[i] is not None for column in full.values()) for i in range(len(moments))]
    return Series(step=5, times=moments, values=full, gaps=gaps_of(moments, known, step=5))


def strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else []
    return [text for part in parts for text in strings(part)]


LATENCY = {
    "ttft_p50": [0.1, 0.1, None, 0.2],
    "ttft_p95": [0.3, 0.3, None, 0.4],
    "ttft_p99": [0.5, 0.6, None, 0.7],
    "ttft_count": [10, 20, None, 5],
}


def test_every_drawn_or_listed_metric_is_in_the_catalogue_under_its_chart() -> None:
    for chart in CHARTS:
        assert {BY_NAME[name].chart for name in (*chart.drawn, *chart.listed)} == {chart.name}
    assert sum(len(chart.drawn) + len(chart.listed) for chart in CHARTS) == len(METRICS)


def test_neighbouring_missing_steps_are_one_gap() -> None:
    assert gaps_of(TIMES, [True, False, False, True], step=5) == [(1005.0, 1015.0)]
    assert gaps_of(TIMES, [False, True, False, True], step=5) == [(1000.0, 1005.0), (1010.0, 1015.0)]


def test_a_line_has_a_hole_where_nothing_was_measured_and_the_gap_is_hatched() -> None:
    drawn = figure(CHART_BY_NAME["ttft"], series(**LATENCY))
    lines = {trace["meta"]: trace for trace in drawn["data"]}
    assert lines["ttft_p99"]["y"] == [500.0, 600.0, None, 700.0]
    assert lines["ttft_p99"]["connectgaps"] is False
    assert lines["gap"]["x"][:3] == ["1970-01-01T00:16:50Z", "1970-01-01T00:16:50Z", "1970-01-01T00:16:55Z"]
    assert lines["gap"]["hoverinfo"] == "skip"


def test_a_single_sample_between_gaps_is_drawn_as_a_point() -> None:
    drawn = figure(CHART_BY_NAME["ttft"], series(ttft_p99=[None, 0.5, None, None]))
    line = next(trace for trace in drawn["data"] if trace["meta"] == "ttft_p99")
    assert line["mode"] == "lines+markers"
    assert list(line["marker"]["size"]) == [0, 5, 0, 0]


def test_colours_are_tokens_so_that_a_theme_needs_no_new_figure() -> None:
    for panel in panels(series(**LATENCY), promises={"ttft": 0.4}):
        text = json.dumps(panel["figure"], allow_nan=False)
        assert not re.search(r"#[0-9a-fA-F]{3,8}\b", text)
        assert "template" not in panel["figure"]["layout"]
    assert "var(--q99)" in strings(figure(CHART_BY_NAME["ttft"], series(**LATENCY)))


def test_the_promise_is_a_dotted_line_with_its_words_and_what_passes_it_is_filled() -> None:
    drawn = figure(CHART_BY_NAME["ttft"], series(**LATENCY), promise=0.55)
    (shape,) = drawn["layout"]["shapes"]
    assert (shape["y0"], shape["line"]["dash"]) == (pytest.approx(550.0), "1.5px,3px")
    assert "promise 550 ms" in strings(drawn["layout"]["annotations"])
    over = drawn["data"][0]
    assert (over["meta"], over["y"][:2]) == ("over", [pytest.approx(550.0), 600.0])


def test_a_new_revision_is_flagged_where_it_was_first_seen() -> None:
    base = series(**LATENCY)
    marked = Series(step=5, times=base.times, values=base.values, gaps=base.gaps, marks=[(1005.0, "r14")])
    layout = figure(CHART_BY_NAME["ttft"], marked)["layout"]
    assert "r14" in strings(layout["annotations"])
    assert layout["shapes"][0]["x0"] == "1970-01-01T00:16:45Z"


def test_cost_is_areas_that_stop_at_a_gap_and_hovering_shows_the_idle_part_alone() -> None:
    values = series(cost_per_minute=[0.1, 0.2, None, 0.1], idle_cost_per_minute=[0.3, 0.2, None, 0.1])
    held, busy, idle_edge, busy_edge, _gap = figure(CHART_BY_NAME["cost"], values)["data"]
    assert held["y"][:6] == [0.0, pytest.approx(0.4), pytest.approx(0.4), pytest.approx(0.4), 0.0, None]
    assert busy["fillcolor"] == "var(--fill-busy)"
    assert idle_edge["customdata"] == [0.3, 0.2, None, 0.1]
    assert busy_edge["y"] == [0.1, 0.2, None, 0.1]


def test_labels_at_the_end_do_not_touch() -> None:
    layout = figure(CHART_BY_NAME["queue"], series(running=[1.0] * 4, waiting=[1.0] * 4))["layout"]
    low, high = sorted(note["y"] for note in layout["annotations"])
    assert high - low > 0.05


def test_kv_use_has_an_axis_of_a_hundred_percent() -> None:
    axis = figure(CHART_BY_NAME["kv"], series(kv_usage=[0.5, 0.5, 0.5, 0.86]))["layout"]["yaxis"]
    assert (list(axis["range"]), axis["ticksuffix"]) == ([0, 100], " %")


def test_a_chart_of_nothing_is_drawn_empty() -> None:
    for chart in CHARTS:
        drawn = figure(chart, series(times=[]))
        assert "range" not in drawn["layout"]["xaxis"]
        assert "annotations" not in drawn["layout"]
        assert sentence(chart, series(times=[])).startswith("Nothing measured in this range.")


def test_the_headline_is_the_newest_value_or_words() -> None:
    values = series(**LATENCY, running=[1, 2, 3, None], waiting=[0, 0, 4, None], tokens_per_second=[8710.0] * 4)
    assert headline(CHART_BY_NAME["ttft"], values) == "700 ms"
    assert headline(CHART_BY_NAME["queue"], values) == "3 + 4"
    assert headline(CHART_BY_NAME["throughput"], values) == "8.71 k a second"
    assert headline(CHART_BY_NAME["e2e"], values) == "no data"
    assert headline(CHART_BY_NAME["cost"], values) == "no price row"


def test_a_value_older_than_a_minute_is_not_the_value_now() -> None:
    assert current([], step=1) is None
    assert current([7.0, *([None] * 59)], step=1) == 7.0
    assert current([7.0, *([None] * 60)], step=1) is None
    assert current([7.0, None, None], step=600) is None
    assert current([7.0, None], step=600) == 7.0


def test_the_sentence_says_range_samples_and_what_is_missing() -> None:
    text = sentence(CHART_BY_NAME["ttft"], series(**LATENCY))
    assert text == "P99 from 500 ms to 700 ms in this range. 35 samples, too few for a firm P99. No samples for 5 s."
    enough = sentence(CHART_BY_NAME["ttft"], series(**(LATENCY | {"ttft_count": [500, 1, 1, 1]})))
    assert "503 samples." in enough
    assert sentence(CHART_BY_NAME["kv"], series(kv_usage=[0.5] * 4)) == "In use from 50 % to 50 % in this range."


def test_the_table_has_the_numbers_of_the_chart_newest_first() -> None:
    listed = table(CHART_BY_NAME["ttft"], series(**LATENCY))
    assert listed["head"] == ["Time", "P99", "P95", "P50", "Samples"]
    assert listed["rows"][0] == ["00:16:55", "700 ms", "400 ms", "200 ms", "5"]
    assert listed["rows"][1] == ["00:16:50", "no data", "no data", "no data", "no data"]


def test_a_panel_has_its_table_only_when_asked() -> None:
    by_name = {panel["name"]: panel for panel in panels(series(**LATENCY), promises={}, tables=["cost"])}
    assert by_name["cost"]["table"]["rows"]
    assert by_name["ttft"]["table"] is None
    assert list(by_name) == [chart.name for chart in CHARTS]
