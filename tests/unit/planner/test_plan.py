"""Placement: what fits goes to one place, what does not gets one reason a node, and order never matters."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiles_app.planner.plan import free_cores, place
from profiles_app.planner.types import Device, Host, Need, Place, Rejection

GIB = 2**30


def cpu_need(**changes: Any) -> Need:
    return replace(
        Need(accelerator="cpu", accelerators=0, cores=2, memory_bytes=4 * GIB, gpu_memory_share=0.9), **changes
    )


def gpu_need(count: int, **changes: Any) -> Need:
    base = Need(accelerator="gpu", accelerators=count, cores=1, memory_bytes=GIB, gpu_memory_share=0.9)
    return replace(base, **changes)


def cpu_host(name: str = "a", **changes: Any) -> Host:
    return replace(Host(name=name, cores=8, memory_total_bytes=32 * GIB, engines={"e1": "cpu"}), **changes)


def gpu_host(name: str = "g", *, gpus: int = 6, **changes: Any) -> Host:
    base = Host(
        name=name,
        cores=8,
        memory_total_bytes=32 * GIB,
        engines={"e2": "cuda"},
        devices=tuple(device(f"{name}-{i}", i) for i in range(gpus)),
    )
    return replace(base, **changes)


def device(uuid: str, index: int, *, total: int | None = 80 * GIB, free: int | None = 80 * GIB) -> Device:
    return Device(uuid=uuid, index=index, memory_total_bytes=total, memory_free_bytes=free)


def rejection(need: Need, host: Host) -> Rejection:
    answer = place(need, hosts=[host])
    assert not isinstance(answer, Place)
    (found,) = answer
    return found


def test_a_replica_that_fits_is_placed_with_the_engine_of_its_kind() -> None:
    host = cpu_host(engines={"z": "cpu", "b": "cuda", "c": "cpu"})
    assert place(cpu_need(), hosts=[host]) == Place(host="a", engine="c", gpu_uuids=())


def test_the_node_with_most_unclaimed_cores_comes_first_and_names_break_ties() -> None:
    hosts = [cpu_host("c"), cpu_host("b"), cpu_host("busy", cores=16, claimed_cores=9.0)]
    answer = place(cpu_need(), hosts=hosts)
    assert isinstance(answer, Place)
    assert answer.host == "b"


def test_a_claim_that_just_fits_is_placed() -> None:
    host = cpu_host(claimed_cores=6.0, claimed_memory_bytes=28 * GIB)
    assert isinstance(place(cpu_need(), hosts=[host]), Place)


def test_a_node_that_does_not_say_how_many_cores_it_has_is_used_last() -> None:
    unknown = cpu_host("a", cores=None)
    assert free_cores(unknown) is None
    answer = place(cpu_need(), hosts=[unknown, cpu_host("b")])
    assert isinstance(answer, Place)
    assert answer.host == "b"
    assert isinstance(place(cpu_need(), hosts=[unknown]), Place)


@pytest.mark.parametrize(
    ("need", "host", "reason", "words"),
    [
        (cpu_need(), cpu_host(engines={"e": "cuda"}), "EngineMissing", "no cpu engine"),
        (gpu_need(1), gpu_host(engines={"e": "cpu"}), "EngineMissing", "no cuda engine"),
        (cpu_need(), cpu_host(claimed_cores=6.5), "InsufficientCores", "1.5 of 8 cores are unclaimed, 2 are needed"),
        (cpu_need(), cpu_host(memory_total_bytes=None), "UnknownMemory", "does not say how much memory"),
        (
            cpu_need(),
            cpu_host(claimed_memory_bytes=29 * GIB),
            "InsufficientMemory",
            "3.0 of 32.0 GiB are unclaimed, 4.0 GiB are needed",
        ),
        (gpu_need(1), gpu_host(gpus=0), "NoGpu", "has no GPU"),
        (gpu_need(7), gpu_host(), "InsufficientGpuMemory", "6 of 6 GPUs"),
    ],
)
def test_what_does_not_fit_has_its_reason_and_the_figures(need: Need, host: Host, reason: str, words: str) -> None:
    found = rejection(need, host)
    assert (found.host, found.reason) == (host.name, reason)
    assert words in found.sentence


def test_every_node_gives_its_reason_in_the_order_of_names() -> None:
    hosts = [cpu_host("b", engines={}), cpu_host("a", cores=1), gpu_host("c")]
    answer = place(cpu_need(), hosts=hosts)
    assert not isinstance(answer, Place)
    assert [(r.host, r.reason) for r in answer] == [
        ("a", "InsufficientCores"),
        ("b", "EngineMissing"),
        ("c", "EngineMissing"),
    ]


def test_without_nodes_there_is_neither_a_place_nor_a_reason() -> None:
    assert place(cpu_need(), hosts=[]) == ()


@pytest.mark.parametrize(
    "taken",
    [
        device("x", 0, total=None),
        device("x", 0, free=None),
        device("x", 0, free=71 * GIB),
    ],
)
def test_a_gpu_without_proven_free_memory_is_not_used(taken: Device) -> None:
    host = gpu_host(devices=(taken, device("y", 1)))
    assert place(gpu_need(1), hosts=[host]) == Place(host="g", engine="e2", gpu_uuids=("y",))
    assert rejection(gpu_need(2), host).sentence.startswith("1 of 2 GPUs")


def test_a_gpu_with_exactly_its_share_free_is_used() -> None:
    host = gpu_host(devices=(device("x", 0, free=72 * GIB),))
    assert isinstance(place(gpu_need(1), hosts=[host]), Place)


def test_a_claimed_gpu_is_never_given_out_again() -> None:
    host = gpu_host(gpus=2, claimed_gpus=frozenset({"g-0"}))
    assert place(gpu_need(1), hosts=[host]) == Place(host="g", engine="e2", gpu_uuids=("g-1",))


def placed_in_turn(needs: list[Need], host: Host) -> list[tuple[str, ...]]:
    """Place one after the other with claims that shrink what is left, as the deployment pass does."""
    sets = []
    for need in needs:
        answer = place(need, hosts=[host])
        if isinstance(answer, Place):
            sets.append(answer.gpu_uuids)
            host = replace(host, claimed_gpus=host.claimed_gpus | set(answer.gpu_uuids))
    return sets


def test_three_replicas_of_two_gpus_share_out_six_gpus() -> None:
    sets = placed_in_turn([gpu_need(2)] * 4, gpu_host(gpus=6))
    assert sets == [("g-0", "g-1"), ("g-2", "g-3"), ("g-4", "g-5")]


devices = st.lists(
    st.tuples(st.none() | st.just(80 * GIB), st.none() | st.integers(0, 80 * GIB)), min_size=0, max_size=6
).map(lambda rows: tuple(device(f"u{i}", i, total=total, free=free) for i, (total, free) in enumerate(rows)))
hosts_of = st.lists(
    st.builds(
        Host,
        name=st.sampled_from("abcdef"),
        cores=st.none() | st.integers(1, 16),
        memory_total_bytes=st.none() | st.integers(0, 64 * GIB),
        engines=st.dictionaries(st.sampled_from(["e1", "e2", "e3"]), st.sampled_from(["cpu", "cuda"])),
        devices=devices,
        claimed_cores=st.floats(0, 16),
        claimed_memory_bytes=st.integers(0, 32 * GIB),
        claimed_gpus=st.frozensets(st.sampled_from([f"u{i}" for i in range(6)])),
    ),
    unique_by=lambda host: host.name,
    max_size=5,
)
needs = st.one_of(
    st.builds(cpu_need, cores=st.floats(0.1, 16), memory_bytes=st.integers(0, 64 * GIB)),
    st.builds(gpu_need, st.integers(1, 4), gpu_memory_share=st.floats(0.1, 1)),
)


@given(needs, hosts_of, st.randoms())
def test_the_order_of_nodes_and_devices_does_not_change_the_answer(need: Need, hosts: list[Host], random: Any) -> None:
    answer = place(need, hosts=hosts)
    shuffled = [replace(host, devices=tuple(random.sample(host.devices, len(host.devices)))) for host in hosts]
    random.shuffle(shuffled)
    assert place(need, hosts=shuffled) == answer


@given(needs, hosts_of)
def test_every_node_is_a_place_or_a_reason(need: Need, hosts: list[Host]) -> None:
    answer = place(need, hosts=hosts)
    if isinstance(answer, Place):
        host = next(host for host in hosts if host.name == answer.host)
        assert not host.claimed_gpus & set(answer.gpu_uuids)
        assert len(set(answer.gpu_uuids)) == need.accelerators
        assert answer.engine in host.engines
    else:
        assert [r.host for r in answer] == sorted(host.name for host in hosts)
        assert all(r.sentence for r in answer)


@given(st.lists(st.integers(1, 4), max_size=6), st.integers(0, 8))
def test_claims_that_shrink_never_overlap(counts: list[int], gpus: int) -> None:
    given_out = [uuid for uuids in placed_in_turn([gpu_need(n) for n in counts], gpu_host(gpus=gpus)) for uuid in uuids]
    assert len(given_out) == len(set(given_out)) <= gpus
