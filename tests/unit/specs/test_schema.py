"""The spec's schema: what it refuses, and that every refusal names the field and says what to do."""

from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from profiles_app.specs.schema import Spec, parse, to_data
from tests.unit.specs.documents import changed, cpu_data, gpu_data, spec_from

# One value for each inert field that its type accepts and that differs from its default.
OTHER_VALUES: dict[str, Any] = {
    "model.adapters": ["lora-a"],
    "compute.data_parallel": 2,
    "compute.power_cap_watts": 300,
    "precision.allow_precision_change": True,
    "slo.ttft_p95_ms": 800.0,
    "slo.itl_p99_ms": 40.0,
    "slo.tokens_per_second": 500.0,
    "slo.availability": 0.99,
    "quality.evaluation": "gsm8k",
    "quality.reasoning_budget": 512,
    "routing.priority": "high",
    "routing.weight": 2.0,
    "fallback": [{"profile": "standard", "on": "error"}],
    "limits.requests_per_minute": 60,
    "limits.tokens_per_minute": 6000,
    "limits.queue_length": 4,
    "topology.mode": "disaggregated",
}


def inert_fields(model: type[BaseModel] = Spec, prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Every field of the schema that is marked to have no effect yet, by path."""
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(field.json_schema_extra, dict) and "inert" in field.json_schema_extra:
            yield f"{prefix}{name}", field
        elif isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from inert_fields(kind, f"{prefix}{name}.")


def sentence_of(field: FieldInfo) -> str:
    assert isinstance(field.json_schema_extra, dict)
    return str(field.json_schema_extra["inert"])


def problems_of(data: dict[str, Any]) -> list[tuple[str, str]]:
    spec, problems = parse(data)
    assert (spec is None) == bool(problems)
    return problems


def test_every_inert_field_has_a_value_to_try_it_with() -> None:
    assert set(OTHER_VALUES) == {path for path, _ in inert_fields()}


@pytest.mark.parametrize(("path", "field"), list(inert_fields()), ids=lambda value: value if type(value) is str else "")
def test_an_inert_field_is_refused_with_its_own_sentence(path: str, field: FieldInfo) -> None:
    assert problems_of(changed(cpu_data(), {path: OTHER_VALUES[path]})) == [(path, sentence_of(field))]


def test_no_two_inert_fields_share_a_sentence() -> None:
    sentences = [sentence_of(field) for _, field in inert_fields()]
    assert len(set(sentences)) == len(sentences)


def test_inert_fields_at_their_defaults_are_accepted() -> None:
    spec = spec_from(cpu_data())
    assert spec_from(to_data(spec)) == spec


def test_every_inert_field_that_was_changed_is_named_at_once() -> None:
    data = changed(cpu_data(), {"slo.availability": 0.9, "routing.weight": 3.0})
    assert [path for path, _ in problems_of(data)] == ["slo.availability", "routing.weight"]


@pytest.mark.parametrize(
    ("path", "value"),
    [("batchin", {"max_num_seqs": 4}), ("batching.max_seqs", 4), ("quality.sampling.top_q", 0.5)],
)
def test_an_unknown_field_is_named(path: str, value: object) -> None:
    (problem,) = problems_of(changed(cpu_data(), {path: value}))
    assert problem == (path, "Forebay knows no such field; remove it or correct its name.")


def test_a_missing_model_is_named() -> None:
    assert problems_of({"batching": {"kv_cache_mib": 1}}) == [("model", "This field is needed; give it a value.")]


@pytest.mark.parametrize(
    ("data", "path", "words"),
    [
        (cpu_data(compute__accelerators=1), "compute.accelerators", "has 0 GPUs"),
        (gpu_data(compute__accelerators=3), "compute.accelerators", "set 2"),
        (gpu_data(compute__pipeline_parallel=2), "compute.accelerators", "set 4"),
        (cpu_data(batching__kv_cache_mib=None), "batching.kv_cache_mib", "needs a size"),
        (
            cpu_data(batching__max_num_seqs=16, batching__max_num_batched_tokens=8),
            "batching.max_num_batched_tokens",
            "below max_num_seqs 16",
        ),
        (
            cpu_data(batching__max_model_len=100, quality__output_cap=101),
            "quality.output_cap",
            "more than max_model_len 100",
        ),
    ],
)
def test_parts_that_contradict_each_other_name_a_field_and_a_way_out(
    data: dict[str, Any], path: str, words: str
) -> None:
    ((found, sentence),) = problems_of(data)
    assert found == path
    assert words in sentence
    assert sentence[0].isupper() or sentence[0].isdigit()


@pytest.mark.parametrize(
    "data",
    [
        gpu_data(),
        gpu_data(compute__accelerators=4, compute__pipeline_parallel=2),
        cpu_data(batching__max_num_seqs=16, batching__max_num_batched_tokens=16),
        cpu_data(batching__max_model_len=100, quality__output_cap=100),
    ],
)
def test_bounds_are_accepted_where_they_just_hold(data: dict[str, Any]) -> None:
    assert problems_of(data) == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("compute.cores", 0),
        ("compute.cores", float("nan")),
        ("compute.max_concurrency", 0),
        ("compute.gpu_memory_utilization", 1.1),
        ("batching.max_model_len", 15),
        ("quality.sampling.temperature", 2.1),
        ("quality.sampling.top_p", 0),
        ("slo.ttft_p99_ms", 0),
        ("slo.ttft_p99_ms", float("inf")),
        ("precision.weights", "fp12"),
        ("model.name", ""),
    ],
)
def test_a_value_out_of_bounds_names_its_field(path: str, value: object) -> None:
    assert [found for found, _ in problems_of(changed(cpu_data(), {path: value}))] == [path]


def test_a_number_that_json_cannot_hold_is_refused_in_engine_options() -> None:
    found = problems_of(cpu_data(engine__extra_args={"swap-space": float("inf")}))
    assert found
    assert all(path.startswith("engine.extra_args.swap-space") for path, _ in found)


def test_a_part_that_is_no_mapping_is_refused() -> None:
    ((path, sentence),) = problems_of(cpu_data(slo=3))
    assert path == "slo"
    assert "dictionary" in sentence


def test_a_spec_is_frozen() -> None:
    spec = spec_from(cpu_data())
    with pytest.raises(ValueError, match="frozen"):
        spec.batching.max_num_seqs = 9


def test_the_data_of_a_spec_holds_every_field() -> None:
    data = to_data(spec_from(cpu_data()))
    assert set(data) == set(Spec.model_fields)
    assert data["compute"]["cores"] == 1.0
    assert data["fallback"] == []


@pytest.mark.parametrize(
    ("part", "field", "value", "sentence"),
    [
        ("batching", "max_num_seqs", "many", "This must be a whole number."),
        ("batching", "max_num_seqs", 1.5, "This must be a whole number."),
        ("batching", "max_num_seqs", 0, "This must be at least 1."),
        ("compute", "cores", "x", "This must be a number."),
        ("compute", "cores", 0, "This must be more than 0."),
        ("compute", "gpu_memory_utilization", 2, "This must be at most 1."),
        ("engine", "enforce_eager", "perhaps", "This must be true or false."),
        ("compute", "accelerator", "tpu", "This must be one of 'cpu' or 'gpu'."),
    ],
)
def test_a_wrong_value_is_named_in_our_own_words(part: str, field: str, value: object, sentence: str) -> None:
    data = {"model": {"name": "m", "version": "v"}, "batching": {"kv_cache_mib": 64}}
    data[part] = data.get(part, {}) | {field: value}
    spec, problems = parse(data)
    assert spec is None
    assert (f"{part}.{field}", sentence) in problems
