"""The hash of a revision says whether two specs are the same, and the difference says where they are not."""

from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from profiles_app.specs.revision import Change, diff, spec_hash
from profiles_app.specs.schema import Spec, parse, to_data
from tests.unit.specs.documents import changed, cpu_data, gpu_data, spec_from

texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
scalars = st.one_of(
    texts, st.integers(-(10**6), 10**6), st.floats(allow_nan=False, allow_infinity=False), st.booleans()
)


@st.composite
def spec_data(draw: st.DrawFn) -> dict[str, Any]:
    """Valid specs over the fields that have an effect."""
    seqs = draw(st.integers(1, 64))
    length = draw(st.integers(16, 8192))
    return cpu_data(
        model__name=draw(texts),
        model__version=draw(texts),
        compute__cores=draw(st.floats(0.1, 64)),
        precision__weights=draw(st.sampled_from(["bf16", "fp32", "int4"])),
        batching__max_num_seqs=seqs,
        batching__max_model_len=length,
        batching__max_num_batched_tokens=draw(st.none() | st.integers(seqs, 10**6)),
        quality__output_cap=draw(st.none() | st.integers(1, length)),
        quality__sampling={"temperature": draw(st.none() | st.floats(0, 2))},
        slo__ttft_p99_ms=draw(st.none() | st.floats(1, 1e9)),
        engine__extra_args=draw(st.dictionaries(texts, scalars, max_size=3)),
    )


@given(spec_data())
def test_a_spec_keeps_its_hash_through_yaml(data: dict[str, Any]) -> None:
    stored = to_data(spec_from(data))
    text = yaml.safe_dump(stored, sort_keys=False)
    assert spec_hash(to_data(spec_from(yaml.safe_load(text)))) == spec_hash(stored)


@given(spec_data(), st.randoms())
def test_the_order_of_keys_does_not_matter(data: dict[str, Any], random: Any) -> None:
    names = list(data)
    random.shuffle(names)
    assert spec_hash({name: data[name] for name in names}) == spec_hash(data)


def test_a_default_that_is_written_out_is_the_same_spec() -> None:
    written = to_data(spec_from(cpu_data(batching__max_num_seqs=8)))
    assert spec_hash(written) == spec_hash(to_data(spec_from(cpu_data())))


def test_every_field_that_has_an_effect_changes_the_hash() -> None:
    base = to_data(spec_from(cpu_data()))
    other = {
        "model.version": "2",
        "compute.max_concurrency": 9,
        "precision.weights": "fp32",
        "batching.max_model_len": 1024,
        "slo.e2e_p99_ms": 5.0,
        "quality.sampling.top_k": 3,
        "engine.enforce_eager": False,
    }
    hashes = {spec_hash(to_data(spec_from(changed(base, {path: value})))) for path, value in other.items()}
    assert len(hashes | {spec_hash(base)}) == len(other) + 1


def test_the_difference_names_paths_in_alphabetical_order() -> None:
    old = to_data(spec_from(cpu_data(quality__sampling={"temperature": 0.2})))
    new = to_data(spec_from(cpu_data(batching__max_num_seqs=4, engine__extra_args={"seed": 1})))
    assert diff(old, new) == (
        Change("batching.max_num_seqs", 8, 4),
        Change("engine.extra_args.seed", None, 1),
        Change("quality.sampling.temperature", 0.2, None),
    )


@given(spec_data())
def test_a_spec_does_not_differ_from_itself(data: dict[str, Any]) -> None:
    stored = to_data(spec_from(data))
    assert diff(stored, stored) == ()


@given(spec_data(), spec_data())
def test_specs_differ_exactly_when_their_hashes_do(one: dict[str, Any], two: dict[str, Any]) -> None:
    first, second = to_data(spec_from(one)), to_data(spec_from(two))
    assert (diff(first, second) == ()) == (spec_hash(first) == spec_hash(second))


def test_cpu_and_gpu_specs_parse_back_from_their_own_data() -> None:
    for data in (cpu_data(), gpu_data()):
        spec, problems = parse(to_data(spec_from(data)))
        assert problems == []
        assert isinstance(spec, Spec)
