"""Usage on its way: in the stream once, or in the file, or counted as lost."""

from pathlib import Path

import msgspec
import pytest
from redis.asyncio import Redis

from gateway.sink import Spool, StreamSink
from tests.unit.gateway_feed.valkey import ValkeyServer
from tests.unit.gateway_proxy.harness import record

pytestmark = pytest.mark.asyncio


@pytest.fixture
def spools(place: Path) -> Path:
    return place / "spool"


@pytest.fixture
def sink(client: Redis, spools: Path) -> StreamSink:
    return StreamSink(client, directory=spools, process_id="gw-1")


def put(sink: StreamSink, *ids: str) -> None:
    for one in ids:
        sink.put(record(id=one))


def numbered(count: int) -> list[str]:
    return [f"req_{number:05}" for number in range(count)]


async def test_each_record_is_one_entry_of_the_stream(sink: StreamSink, server: ValkeyServer, spools: Path) -> None:
    put(sink, *numbered(2500))
    assert sink.queued == 2500
    await sink.flush()
    assert server.usage_ids() == numbered(2500)
    assert (sink.queued, sink.dropped, spools.exists()) == (0, 0, False)
    await sink.flush()
    assert len(server.usage_ids()) == 2500


async def test_with_valkey_down_records_wait_in_a_private_file_and_are_replayed(
    sink: StreamSink, server: ValkeyServer, spools: Path
) -> None:
    server.kill()
    put(sink, *numbered(2500))
    await sink.flush()
    put(sink, "req_late")
    await sink.flush()
    (path,) = spools.iterdir()
    assert (path.name, path.stat().st_mode & 0o777) == ("usage-gw-1.jsonl", 0o600)
    assert (sink.queued, sink.dropped) == (0, 0)
    server.start()
    put(sink, "req_new")
    await sink.flush()
    assert sorted(server.usage_ids()) == sorted([*numbered(2500), "req_late", "req_new"])
    assert list(spools.iterdir()) == []
    server.kill()
    put(sink, "req_again")
    await sink.flush()
    assert [path.name for path in spools.iterdir()] == ["usage-gw-1.jsonl"]
    await sink.close()


async def test_a_full_queue_drops_and_counts(client: Redis, spools: Path, server: ValkeyServer) -> None:
    sink = StreamSink(client, directory=spools, process_id="gw-1", queue_limit=3)
    put(sink, *numbered(5))
    assert (sink.queued, sink.dropped) == (3, 2)
    await sink.flush()
    assert server.usage_ids() == numbered(3)


async def test_a_full_file_drops_and_counts(client: Redis, spools: Path, server: ValkeyServer) -> None:
    one = len(msgspec.json.encode(record(id="req_00000"))) + 1
    sink = StreamSink(client, directory=spools, process_id="gw-1", spool_limit_bytes=3 * one)
    server.kill()
    for request_id in numbered(5):
        put(sink, request_id)
        await sink.flush()
    assert sink.dropped == 2
    server.start()
    await sink.flush()
    assert server.usage_ids() == numbered(3)


async def test_a_file_that_cant_be_written_leaves_records_in_the_bounded_queue(
    sink: StreamSink, server: ValkeyServer, spools: Path
) -> None:
    spools.write_text("a file where the directory should be")
    server.kill()
    put(sink, "req_1")
    await sink.flush()
    assert (sink.queued, sink.dropped) == (1, 0)
    server.start()
    await sink.flush()
    assert (server.usage_ids(), sink.queued) == (["req_1"], 0)


async def test_files_of_dead_processes_are_taken_over_and_those_of_living_ones_are_not(
    sink: StreamSink, server: ValkeyServer, spools: Path
) -> None:
    spools.mkdir()
    whole = msgspec.json.encode(record(id="req_dead"))
    (spools / "usage-dead.jsonl").write_bytes(whole + b"\n" + whole[:20])
    living = Spool.claim(spools / "usage-living.jsonl")
    assert living is not None
    living.append([msgspec.json.encode(record(id="req_living"))])
    await sink.flush()
    assert server.usage_ids() == ["req_dead"]
    assert sink.dropped == 1  # the half-written line
    assert [path.name for path in spools.iterdir()] == ["usage-living.jsonl"]
    living.close(remove=False)


async def test_a_file_of_a_dead_process_survives_while_valkey_is_down(
    sink: StreamSink, server: ValkeyServer, spools: Path
) -> None:
    spools.mkdir()
    (spools / "usage-dead.jsonl").write_bytes(msgspec.json.encode(record(id="req_dead")) + b"\n")
    server.kill()
    await sink.flush()
    await sink.flush()
    assert (spools / "usage-dead.jsonl").exists()
    server.start()
    await sink.flush()
    assert server.usage_ids() == ["req_dead"]
    assert list(spools.iterdir()) == []


async def test_what_is_left_at_the_end_is_kept_for_the_next_process(
    sink: StreamSink, client: Redis, server: ValkeyServer, spools: Path
) -> None:
    server.kill()
    put(sink, "req_1")
    await sink.close()
    server.start()
    await StreamSink(client, directory=spools, process_id="gw-2").flush()
    assert server.usage_ids() == ["req_1"]


async def test_a_sink_whose_file_is_held_by_another_keeps_its_queue(
    sink: StreamSink, server: ValkeyServer, spools: Path
) -> None:
    spools.mkdir()
    holder = Spool.claim(spools / "usage-gw-1.jsonl")
    assert holder is not None
    server.kill()
    put(sink, "req_1")
    await sink.flush()
    assert sink.queued == 1
    holder.close(remove=True)
    await sink.flush()
    assert sink.queued == 0
    await sink.close()
