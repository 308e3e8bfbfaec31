"""The pure parts of the pages: numbers as text, the timeline, the form of a spec, the command, the verdict."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest

from profiles_app.specs.schema import parse, to_data
from profiles_app.web import formats
from profiles_app.web.findings import findings
from profiles_app.web.marks import mark
from profiles_app.web.numbers import whole
from profiles_app.web.preview import command_lines
from profiles_app.web.rows import ProfileRow, worst_first
from profiles_app.web.specform import data_from_form, leaves, sections
from profiles_app.web.timeline import MOST_STEPS, timeline
from profiles_app.web.verdicts import census, overview_verdict

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
SPEC = {"model": {"name": "tiny", "version": "v1"}, "batching": {"kv_cache_mib": 128}}


@dataclass(frozen=True)
class Move:
    at: datetime
    new: str
    reason: str = "R"
    message: str = ""


def row(name: str, state: str) -> ProfileRow:
    return ProfileRow(name, "", "default", "tiny", "bf16", 1, 1, state, 0, 1, "id", None, "Because.")


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "unknown"), (5, "5 s"), (402, "6 min 42 s"), (7384, "2 h 03 min"), (90000, "1 d 1 h"), (-3, "0 s")],
)
def test_a_duration_has_its_two_largest_units(value: float | None, text: str) -> None:
    assert formats.duration(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(None, "unknown"), (2**20, "1 MiB"), (2**30, "1.00 GiB"), (93.6 * 2**30, "93.6 GiB")]
)
def test_memory_has_its_unit(value: float | None, text: str) -> None:
    assert formats.memory(value) == text


@pytest.mark.parametrize(("value", "text"), [(None, "not measured"), (0.1417, "142 ms"), (1.118, "1.12 s")])
def test_latency_is_in_milliseconds_below_a_second(value: float | None, text: str) -> None:
    assert formats.latency(value) == text


def test_a_share_that_is_unknown_is_not_zero() -> None:
    assert formats.percent(None) == "unknown"
    assert formats.percent(0.58) == "58\u202f%"


def test_another_day_is_said_with_its_date() -> None:
    assert formats.clock(NOW, now=NOW + timedelta(hours=2)) == "12:00:00"
    assert formats.clock(NOW, now=NOW + timedelta(days=2)) == "30 Nov 12:00"


@pytest.mark.parametrize(("text", "value"), [("12", 12), ("1,024", 1024), ("", None), (None, None), ("-1", None)])
def test_a_whole_number_is_read_or_none(text: str | None, value: int | None) -> None:
    assert whole(text) == value


def test_a_state_without_a_mark_is_shown_as_unknown_with_its_word() -> None:
    assert mark("half_open").word == "Half open"
    assert mark("half_open").glyph == "unknown"


def test_the_timeline_puts_steps_on_one_axis_up_to_now() -> None:
    moves = [Move(NOW, "pending"), Move(NOW + timedelta(seconds=10), "starting")]
    drawn = timeline([("#0", moves)], now=NOW + timedelta(seconds=40))
    assert [(step.x, step.width, step.state) for step in drawn.steps] == [
        ("0.00%", "25.00%", "done"),
        ("25.00%", "75.00%", "starting"),
    ]
    assert drawn.now_x == "100.00%"


def test_the_usual_start_makes_the_axis_longer() -> None:
    drawn = timeline([("#0", [Move(NOW, "starting")])], now=NOW + timedelta(seconds=10), usual_start=40)
    assert (drawn.span, drawn.now_x, drawn.steps[0].usual_width) == (40, "25.00%", "100.00%")


def test_a_timeline_that_has_ended_has_no_now() -> None:
    moves = [Move(NOW, "starting"), Move(NOW + timedelta(seconds=5), "failed")]
    drawn = timeline([("#0", moves)], now=NOW + timedelta(hours=1))
    assert (drawn.now_x, drawn.span) == ("", 5)
    assert [step.state for step in drawn.steps] == ["failed", "failed"]


def test_an_empty_timeline_and_one_that_is_too_long_say_so() -> None:
    assert timeline([], now=NOW).steps == ()
    many = [Move(NOW + timedelta(seconds=n), "ready") for n in range(MOST_STEPS + 5)]
    assert timeline([("#0", many)], now=NOW + timedelta(hours=1)).dropped == 5


def test_the_form_gives_back_the_spec_that_it_was_made_from() -> None:
    spec, _ = parse({**SPEC, "engine": {"extra_args": {"seed": 7}}, "quality": {"sampling": {"temperature": 0.5}}})
    assert spec
    posted = {row.path: row.value for part in sections(to_data(spec)) for row in part.fields}
    data, problems = data_from_form(posted)
    assert problems == []
    assert parse(data) == (spec, [])


def test_every_field_of_the_schema_has_its_place_in_the_form() -> None:
    shown = {row.path for part in sections(SPEC) for row in part.fields}
    assert shown == {path for path, _ in leaves()}


def test_a_problem_of_one_engine_option_stands_at_the_options() -> None:
    parts = sections(SPEC, problems=[("engine.extra_args.seed", "No such option.")])
    engine = next(part for part in parts if part.name == "engine")
    assert [row.problems for row in engine.fields if row.path == "engine.extra_args"] == [("No such option.",)]


def test_fields_of_gpus_are_not_said_of_a_profile_on_the_cpu() -> None:
    compute = next(part for part in sections(SPEC) if part.name == "compute")
    assert "compute.tensor_parallel" not in {row.path for row in compute.said}


def test_the_command_marks_changed_added_and_dropped_lines() -> None:
    old, _ = parse(SPEC)
    new, _ = parse(
        {**SPEC, "batching": {"max_num_batched_tokens": 512}, "compute": {"accelerator": "gpu", "accelerators": 1}}
    )
    assert old
    assert new
    base = command_lines(old, name="p", model_source="/m", argv_prefix=["vllm"])
    assert {line.change for line in base} == {""}
    changes = {line.text.strip().split(" ")[0]: line.change for line in command_lines(
        new, name="p", model_source="/m", argv_prefix=["vllm"], base=base
    )}  # fmt: skip
    assert changes["--max-num-batched-tokens"] == "add"
    assert changes["--kv-cache-memory-bytes"] == "del"
    assert changes["--max-model-len"] == ""


def test_the_port_is_said_to_be_chosen_later() -> None:
    spec, _ = parse(SPEC)
    assert spec
    lines = command_lines(spec, name="", model_source="/m", argv_prefix=["vllm"])
    assert any("--port (chosen at the start)" in line.text for line in lines)
    assert lines[-1].text[-1] != "\\"


def test_the_worst_profile_is_first_and_gives_the_verdict() -> None:
    rows = worst_first([row("b", "ready"), row("a", "ready"), row("c", "degraded")])
    assert [found.name for found in rows] == ["c", "a", "b"]
    verdict = overview_verdict(rows, [])
    assert (verdict.state, verdict.headline) == ("degraded", "c is below strength: 0 of 1 replicas ready")


def test_a_set_up_that_stopped_is_said_with_its_fix() -> None:
    steps = [{"title": "Install the engine", "state": "failed", "detail": "No wheel.", "fix": "Run this."}]
    verdict = overview_verdict([row("a", "ready")], steps)
    assert verdict.headline == "The set-up stopped at: Install the engine"
    assert verdict.why == "No wheel. Run this."


@pytest.mark.parametrize(
    ("states", "headline"),
    [
        ((), "No profile is stored yet"),
        (("none",), "p0 is stored, none is running"),
        (("none", "stopped"), "2 profiles are stored, none is running"),
        (("ready", "ready"), "All 2 deployed profiles are ready"),
        (("starting",), "p0 is starting: 0 of 1 replicas ready"),
    ],
)
def test_all_well_is_a_verdict_too(states: tuple[str, ...], headline: str) -> None:
    rows = worst_first([row(f"p{n}", state) for n, state in enumerate(states)])
    assert overview_verdict(rows, []).headline == headline


def test_the_census_counts_what_there_is() -> None:
    rows = [row("a", "ready"), row("b", "ready"), replace(row("c", "failed"), deployment_id="")]
    assert [(count.state, count.count, count.url) for count in census(rows, base="/p/")] == [
        ("failed", 1, "/p/?state=failed"),
        ("ready", 2, "/p/?state=ready"),
    ]


def test_findings_name_what_failed_and_what_to_do() -> None:
    found = findings(
        steps=[{"title": "Install", "state": "failed", "detail": "d", "fix": "f"}, {"title": "x", "state": "done"}],
        processes=[
            {"name": "web", "state": "running"},
            {"name": "monitor", "state": "backing off", "last_exit": {"code": 1, "clean": False}},
        ],
        nodes={"node-a": ["The disk is full."]},
    )
    assert [(row.state, row.what, row.detail) for row in found] == [
        ("error", "Install", "d"),
        ("error", "monitor does not run", "Its last exit was 1."),
        ("warning", "node-a", "The disk is full."),
    ]
