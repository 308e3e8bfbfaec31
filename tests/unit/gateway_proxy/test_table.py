"""The routing table: what is read, what is refused, and how old it may get."""

import pytest

from gateway.proxy.table import TableError, TableStore, decode_table, encode_table, ready_replicas
from tests.unit.gateway_proxy.harness import profile, replica, table


def test_a_table_survives_the_wire() -> None:
    assert decode_table(encode_table(table())) == table()


@pytest.mark.parametrize("raw", [b"", b"{}", b'{"schema":1,"version":"x"}', b"\xff"])
def test_malformed_bytes_are_refused(raw: bytes) -> None:
    with pytest.raises(TableError):
        decode_table(raw)


def test_another_schema_is_refused() -> None:
    with pytest.raises(TableError, match="schema 2"):
        decode_table(encode_table(table(schema=2)))


def test_only_listed_ready_replicas_take_requests() -> None:
    rows = {"r1": replica(), "r2": replica(state="draining"), "r4": replica()}
    assert ready_replicas(table(replicas=rows), profile(replicas=("r1", "r2", "r3"))) == ["r1"]


def test_an_empty_store_has_no_table_no_version_and_no_age() -> None:
    store = TableStore(ttl=30)
    assert (store.version, store.age(mono=5), store.fresh(mono=5)) == (None, None, None)
    assert not store.confirm(version=1, mono=5)


def test_a_table_past_its_time_to_live_is_not_served_until_a_source_confirms_it() -> None:
    store = TableStore(ttl=30)
    assert store.offer(table(), mono=100)
    assert store.fresh(mono=130) is not None
    assert store.fresh(mono=130.1) is None
    assert not store.confirm(version=2, mono=131)
    assert store.confirm(version=1, mono=131)
    assert store.age(mono=133) == 2
    assert store.fresh(mono=133) is not None


def test_an_older_version_never_replaces_a_newer_one() -> None:
    store = TableStore(ttl=30)
    store.offer(table(version=5, published_at=50), mono=0)
    assert not store.offer(table(version=4, published_at=50), mono=1)
    assert (store.version, store.age(mono=1)) == (5, 1)


def test_a_lower_version_with_a_later_date_wins_because_the_store_began_anew() -> None:
    store = TableStore(ttl=30)
    store.offer(table(version=5, published_at=50), mono=0)
    assert store.offer(table(version=1, published_at=60), mono=1)
    assert store.version == 1
