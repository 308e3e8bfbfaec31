"""The usage stream into the database: each request exactly once, in its own second, whatever breaks."""

from collections.abc import Iterator

import numpy as np
import pytest

from gateway.models import UsageRecord
from monitoring import ingest
from monitoring.models import IngestCursor, Rollup
from monitoring.readers import usage
from monitoring.rollups import Bucket, merge_all
from tests.integration.monitoring_world import NOW, Valkey, add, entry

pytestmark = pytest.mark.django_db(databases=["default", "telemetry"])


@pytest.fixture(scope="module")
def server() -> Iterator[Valkey]:
    valkey = Valkey()
    yield valkey
    valkey.close()


@pytest.fixture
def client(server: Valkey) -> Iterator[object]:
    client = server.client()
    client.flushdb()
    yield client
    client.close()


def take_all(client: object, fence: int, *, count: int = usage.BATCH) -> list[ingest.Ingested]:
    batches = []
    while True:
        batches.append(ingest.ingest_batch(client, fence=fence, now=NOW, count=count))  # type: ignore[arg-type]
        if not batches[-1].more:
            return batches


def totals(tier: int) -> Bucket:
    return merge_all(Bucket.decode(row.payload) for row in Rollup.objects.filter(tier=tier))


def test_each_request_is_stored_once_however_often_it_was_sent(client) -> None:
    fence = ingest.claim_fence()
    add(client, entry(1), entry(2), entry(1), entry(2, e2e=5.0))
    add(client, entry(2))
    batches = take_all(client, fence, count=4)
    assert sorted(UsageRecord.objects.values_list("id", "e2e")) == [("req_00000001", 0.9), ("req_00000002", 0.9)]
    assert sum(batch.duplicates for batch in batches) == 3
    assert [totals(tier).requests for tier in (1, 10, 60)] == [2, 2, 2]
    cursor = IngestCursor.objects.get()
    assert (cursor.ingested, cursor.duplicates) == (2, 3)


def test_reading_again_from_the_start_adds_nothing(client) -> None:
    fence = ingest.claim_fence()
    add(client, *(entry(i) for i in range(30)))
    take_all(client, fence)
    IngestCursor.objects.update(position="0-0")
    take_all(client, fence, count=7)
    assert UsageRecord.objects.count() == 30
    assert [totals(tier).requests for tier in (1, 10, 60)] == [30, 30, 30]


def test_a_batch_whose_transaction_fails_is_taken_whole_the_next_time(client, monkeypatch) -> None:
    fence = ingest.claim_fence()
    add(client, entry(1), entry(2))
    with monkeypatch.context() as patch:
        patch.setattr(Bucket, "encode", lambda self: object())
        with pytest.raises(TypeError):
            ingest.ingest_batch(client, fence=fence, now=NOW)
    assert UsageRecord.objects.count() == 0
    assert ingest.position() == "0-0"
    take_all(client, fence)
    assert (UsageRecord.objects.count(), totals(60).requests) == (2, 2)


def test_what_no_gateway_can_have_written_is_counted_and_left_out(client) -> None:
    broken = [
        "{",
        "[]",
        entry(1, id=""),
        entry(2, e2e=-1),
        entry(3, outcome="odd"),
        entry(4, prompt_tokens="7"),
        entry(5, at=True),
    ]
    add(client, *broken, entry(9))
    client.xadd("forebay:usage", {"other": "x"})
    (batch,) = take_all(client, ingest.claim_fence())
    assert (batch.new, batch.malformed) == (1, len(broken) + 1)
    assert IngestCursor.objects.get().malformed == len(broken) + 1


def test_a_request_that_reached_no_profile_is_a_record_but_no_sample(client) -> None:
    add(client, entry(1, profile=None, team=None, revision=None, outcome="refused", status=401, ttft=None))
    take_all(client, ingest.claim_fence())
    assert UsageRecord.objects.get().status == 401
    assert not Rollup.objects.exists()


def test_a_late_record_joins_its_own_second_and_raises_the_peak_of_the_minute(client) -> None:
    fence = ingest.claim_fence()
    add(client, *(entry(i, at=NOW - 100.0, e2e=0.5) for i in range(3)), entry(8, at=NOW - 95.0))
    take_all(client, fence)
    add(client, *(entry(20 + i, at=NOW - 100.0, e2e=0.4) for i in range(2)))
    take_all(client, fence)
    second = Bucket.decode(Rollup.objects.get(tier=1, start=int(NOW) - 100).payload)
    assert (second.requests, second.peak) == (5, 5)
    assert max(Bucket.decode(row.payload).peak for row in Rollup.objects.filter(tier=60)) == 5


def test_stored_percentiles_are_within_one_percent_of_the_raw_samples_in_every_tier(client) -> None:
    raw = np.random.default_rng(3).lognormal(-1.5, 0.9, 1500)
    add(client, *(entry(i, at=NOW - 200 + i / 10, e2e=float(v)) for i, v in enumerate(raw)))
    take_all(client, ingest.claim_fence())
    for tier in (1, 10, 60):
        for q in (0.5, 0.95, 0.99):
            exact = float(np.quantile(raw, q, method="inverted_cdf"))
            assert totals(tier).e2e.quantile(q) == pytest.approx(exact, rel=0.01)


def test_streamed_and_plain_requests_with_the_same_usage_count_the_same(client) -> None:
    add(client, entry(1, profile="a"), entry(2, profile="b", streamed=False, ttft=None))
    take_all(client, ingest.claim_fence())
    streamed, plain = (Bucket.decode(Rollup.objects.get(tier=60, profile=name).payload) for name in "ab")
    tokens = [(b.prompt_tokens, b.cached_tokens, b.completion_tokens) for b in (streamed, plain)]
    assert tokens == [(12, 4, 30)] * 2


def test_a_monitor_with_an_older_fence_can_write_nothing(client) -> None:
    old = ingest.claim_fence()
    new = ingest.claim_fence()
    add(client, entry(1))
    with pytest.raises(ingest.StaleFenceError):
        ingest.ingest_batch(client, fence=old, now=NOW)
    with pytest.raises(ingest.StaleFenceError):
        ingest.merge_observations({(("fast", 3), int(NOW)): Bucket()}, fence=old)
    assert not UsageRecord.objects.exists()
    assert ingest.ingest_batch(client, fence=new, now=NOW).new == 1


def test_a_stream_that_begins_again_is_read_from_its_start(client) -> None:
    fence = ingest.claim_fence()
    add(client, entry(1))
    take_all(client, fence)
    client.delete("forebay:usage")
    client.xadd("forebay:usage", {"r": usage.json.dumps(entry(2))}, id="5-1")
    take_all(client, fence)
    assert ingest.position() == "0-0"
    take_all(client, fence)
    assert UsageRecord.objects.count() == 2


def test_without_a_stream_there_is_nothing_and_no_error(client) -> None:
    assert take_all(client, ingest.claim_fence())[0].new == 0
    assert usage.newest_position(client) is None


def test_a_record_from_the_future_is_kept_but_not_drawn(client) -> None:
    add(client, entry(1, at=NOW + 3600))
    take_all(client, ingest.claim_fence())
    assert UsageRecord.objects.count() == 1
    assert not Rollup.objects.exists()


def test_each_tier_is_pruned_past_its_own_retention_a_few_rows_at_a_time(client) -> None:
    fence = ingest.claim_fence()
    old = {(("fast", 3), int(NOW) - 7 * 3600 + i): Bucket() for i in range(10)}
    ingest.merge_observations(old | {(("fast", 3), int(NOW)): Bucket()}, fence=fence)
    assert ingest.prune(now=NOW, rows=6) == 6
    assert ingest.prune(now=NOW, rows=6) == 4
    assert ingest.prune(now=NOW, rows=6) == 0
    assert list(Rollup.objects.filter(tier=1).values_list("start", flat=True)) == [int(NOW)]
    assert Rollup.objects.filter(tier=10).count() > 1


def test_reports_of_gateways_are_read_and_broken_ones_left_out(client) -> None:
    client.set("forebay:gateway:a", '{"process_id":"a","at":5.0,"replicas":{"r":{"busy_seconds":1.5},"s":{}}}')
    client.set("forebay:gateway:b", "{")
    client.set("forebay:gateway:c", '{"process_id":"c","replicas":[]}')
    busy = usage.busy_of(usage.gateway_reports(client))
    assert {name: (report.at, dict(report.replicas)) for name, report in busy.items()} == {"a": (5.0, {"r": 1.5})}
