"""The monitor: passes over a real broker, real engines' metrics over HTTP, leases and restarts."""

import http.server
import json
import threading
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import redis
from django.utils import timezone

from monitoring.models import Price, Rollup
from monitoring.monitor import Monitor
from monitoring.publish import CHANNEL, LEASE, read_status
from monitoring.readers.base import Target
from monitoring.readers.vllm import MAX_BYTES, CounterIncrease, VllmReader, parse
from monitoring.rollups import Bucket, merge_all
from monitoring.selectors import verdict_row
from tests.integration.monitoring_world import NOW, Valkey, add, entry, profile, replica, report

pytestmark = pytest.mark.django_db(databases=["default", "telemetry"])

METRICS = """# HELP vllm:num_requests_running Requests
vllm:num_requests_running{engine="0",model_name="a b} c"} 2.0
vllm:num_requests_running{engine="1",model_name="tiny"} 1.0
vllm:num_requests_waiting{engine="0"} 4
vllm:kv_cache_usage_perc{engine="0"} 0.25
vllm:kv_cache_usage_perc{engine="1"} 0.75
vllm:generation_tokens_total{engine="0"} %d
vllm:generation_tokens_created{engine="0"} 1.79e9
vllm:num_preemptions_total{engine="0"} NaN
vllm:prompt_tokens_total{engine="0"} oops
"""


class QuietServer(http.server.ThreadingHTTPServer):
    """A reader that leaves in the middle is part of these tests, and no news."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass


class Engine:
    """A server that answers /metrics with a text, and remembers the key that it was asked with."""

    def __init__(self) -> None:
        self.text = METRICS % 100
        self.keys: list[str | None] = []
        self.hang = threading.Event()
        self.hang.set()
        engine = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                engine.keys.append(self.headers.get("Authorization"))
                engine.hang.wait(5)
                body = engine.text.encode()
                self.send_response(200 if self.path == "/metrics" else 404)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: Any) -> None:
                pass

        self.server = QuietServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.hang.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join(5)


@pytest.fixture(scope="module")
def server() -> Iterator[Valkey]:
    valkey = Valkey()
    yield valkey
    valkey.close()


@pytest.fixture
def client(server: Valkey) -> Iterator[redis.Redis]:
    client = server.client()
    client.flushdb()
    yield client
    client.close()


@pytest.fixture
def engine() -> Iterator[Engine]:
    engine = Engine()
    yield engine
    engine.close()


@pytest.fixture
def reader() -> Iterator[VllmReader]:
    reader = VllmReader(timeout_seconds=2.0)
    yield reader
    reader.close()


@pytest.fixture
def frames(client: redis.Redis) -> Iterator[Any]:
    subscription = client.pubsub(ignore_subscribe_messages=True)
    subscription.subscribe(CHANNEL)
    while subscription.get_message(timeout=1) is not None:
        pass

    def published() -> list[dict[str, Any]]:
        found = []
        while (message := subscription.get_message(timeout=0.2)) is not None:
            found.append(json.loads(message["data"]))
        return found

    yield published
    subscription.close()


def monitor(client: redis.Redis, reader: VllmReader, generation: str = "m1") -> Monitor:
    return Monitor(client=client, reader=reader, generation=generation, time_scale=1.0)


def price(usd: str = "3.6") -> None:
    at = timezone.datetime.fromtimestamp(NOW - 86400, tz=timezone.get_default_timezone())
    Price.objects.create(
        accelerator="cpu", unit="core_hour", usd=Decimal(usd), source="test", as_of=at.date(), valid_from=at
    )


def test_a_pass_publishes_a_frame_for_each_profile_with_what_happened(client, reader, engine, frames) -> None:
    price()
    row = replica(profile(), port=engine.port)
    profile("idle")
    watcher = monitor(client, reader)
    report(client, at=NOW - 1, **{str(row.id): 5.0})
    watcher.step(now=NOW - 1)
    add(client, *(entry(i, at=NOW - 2, e2e=0.5) for i in range(6)))
    report(client, at=NOW, **{str(row.id): 5.5})
    engine.text = METRICS % 130
    assert watcher.step(now=NOW) == 2
    fast, idle = (frame for frame in frames()[-2:])
    assert (fast["topic"], fast["team"], fast["generation"], fast["seq"]) == ("profile:fast", "default", "m1", 2)
    data = fast["data"]
    assert data["e2e"]["p99"] == pytest.approx(0.5, rel=0.01)
    assert (data["e2e"]["count"], data["requests_per_second"], data["tokens_per_second"]) == (6, 0.1, 3.0)
    # Two cores busy for half a second at 3.6 USD a core-hour.
    assert data["cost_per_minute"] == pytest.approx(0.001)
    assert data["busy_share"] == pytest.approx(0.5)
    assert data["engine"] == {"running": 3.0, "waiting": 4.0, "kv_usage": 0.75, "age": 0.0}
    assert data["replicas_ready"] == 1
    assert idle["data"]["ttft"]["p99"] is None
    assert set(engine.keys) == {"Bearer engine-key"}
    assert merge_all(Bucket.decode(r.payload) for r in Rollup.objects.filter(tier=1)).engine_tokens == 30


def test_a_frame_carries_the_verdict_on_its_own_figures(client, reader, frames) -> None:
    replica(profile(slo={"ttft_p99_ms": 100.0}))
    add(client, entry(1, at=NOW - 3, ttft=0.5, streamed=True))
    assert monitor(client, reader).step(now=NOW) == 1
    (frame,) = frames()
    promised = {"ttft": 0.1, "e2e": None}
    assert frame["verdict"] == verdict_row(profile="fast", data=frame["data"], promised=promised)
    assert (frame["verdict"]["state"], frame["verdict"]["word"]) == ("bad", "Promise broken")


def test_an_engine_that_hangs_costs_bounded_time_and_its_last_reading_grows_old(client, engine, frames) -> None:
    reader = VllmReader(timeout_seconds=0.3)
    replica(profile(), port=engine.port)
    watcher = monitor(client, reader)
    watcher.step(now=NOW)
    engine.hang.clear()
    watcher.step(now=NOW + 7)
    assert frames()[-1]["data"]["engine"]["age"] == 7.0
    watcher.step(now=NOW + 70)
    assert frames()[-1]["data"]["engine"] == {"running": None, "waiting": None, "kv_usage": None, "age": None}
    reader.close()


def test_a_restarted_engines_counters_give_no_negative_rate_and_no_spike(client, reader, engine) -> None:
    replica(profile(), port=engine.port)
    watcher = monitor(client, reader)
    for second, tokens in enumerate((1000, 1040, 10, 25)):
        engine.text = METRICS % tokens
        watcher.step(now=NOW + second)
    seen = [Bucket.decode(row.payload).engine_tokens for row in Rollup.objects.filter(tier=1).order_by("start")]
    assert seen == [None, 40, 10, 15]


def test_only_the_lease_holder_publishes_and_the_next_one_takes_over(client, reader, frames) -> None:
    profile()
    first, second = monitor(client, reader, "m1"), monitor(client, reader, "m2")
    assert (first.step(now=NOW), second.step(now=NOW)) == (1, 0)
    client.delete(LEASE)
    assert second.step(now=NOW + 1) == 1
    assert first.step(now=NOW + 2) == 0
    assert [(frame["generation"], frame["seq"]) for frame in frames()] == [("m1", 1), ("m2", 1)]
    second.release()
    assert first.step(now=NOW + 3) == 1


def test_a_lease_lost_in_the_middle_of_a_pass_publishes_nothing(client, reader, frames) -> None:
    profile()

    class Thief(VllmReader):
        def read(self, targets: list[Target], *, now: float) -> dict[str, Any]:
            client.set(LEASE, "someone else")
            return {}

    thief = Thief(timeout_seconds=1.0)
    assert monitor(client, thief).step(now=NOW) == 0
    assert frames() == []
    thief.close()


def test_a_new_monitor_knows_the_last_minute_from_the_database(client, reader, frames) -> None:
    profile()
    add(client, *(entry(i, at=NOW - 20) for i in range(5)))
    first = monitor(client, reader)
    first.step(now=NOW)
    first.release()
    monitor(client, reader, "m2").step(now=NOW + 1)
    assert [frame["data"]["requests"] for frame in frames()] == [5, 5]


def test_the_sequence_goes_on_after_the_broker_was_away(reader) -> None:
    valkey = Valkey()
    client = valkey.client()
    profile()
    watcher = monitor(client, reader)
    watcher.step(now=NOW)
    add(client, entry(1))
    valkey.kill()
    with pytest.raises(redis.RedisError):
        watcher.step(now=NOW + 1)
    valkey.start()
    watcher.step(now=NOW + 2)
    assert (watcher._seq["profile:fast"], watcher._window.merged("fast", now=NOW + 2).requests) == (2, 1)
    client.close()
    valkey.close()


@pytest.mark.django_db(databases=["default", "telemetry"], transaction=True)
def test_the_loop_goes_on_after_a_failed_pass_and_ends_when_told(client, reader, caplog) -> None:
    profile()
    stop = threading.Event()
    moments = iter([NOW, NOW + 1])

    def clock() -> float:
        moment = next(moments, None)
        if moment is None:
            stop.set()
            raise RuntimeError("the clock ran out")
        return moment

    watcher = Monitor(client=client, reader=reader, generation="m1", time_scale=0.01)
    watcher.run(stop, clock=clock)
    assert "monitor pass failed" in caplog.text
    assert client.get(LEASE) is None
    status = read_status(client)
    assert status is None or status["passes"] == 2


def test_the_status_says_how_far_behind_the_stream_the_database_is(client, reader) -> None:
    add(client, entry(1))
    monitor(client, reader).step(now=NOW)
    status = read_status(client)
    assert status is not None
    assert (status["lag_seconds"], status["new"], status["generation"]) == (0.0, 1, "m1")
    client.set("forebay:monitor:status", "{")
    assert read_status(client) is None


def test_real_vllm_metrics_are_read_and_absent_series_are_unknown() -> None:
    text = (Path(__file__).parent.parent / "data" / "vllm" / "metrics_0.32.0_dp2_multiapi.txt").read_text()
    reading = parse(text, at=1.0)
    assert (reading.running, reading.generation_tokens, reading.kv_usage) == (0.0, 82.0, 0.0)
    assert parse("", at=1.0).running is None


def test_the_name_of_today_counts_and_the_older_one_where_it_is_alone() -> None:
    old = 'vllm:gpu_cache_usage_perc{model_name="m"} 0.5\n'
    assert parse(old, at=1.0).kv_usage == 0.5
    assert parse(old + 'vllm:kv_cache_usage_perc{engine="0"} 0.6\n', at=1.0).kv_usage == 0.6
    assert parse("vllm:num_requests_running 3\nvllm:num_requests_waiting\n", at=1.0).running == 3.0


def test_a_counter_has_no_increase_before_two_readings_and_forgets_what_ended() -> None:
    counter = CounterIncrease()
    assert [counter.take("a", value) for value in (5.0, 8.0, None, 2.0)] == [None, 3.0, None, 2.0]
    counter.keep(set())
    assert counter.take("a", 9.0) is None


def test_a_wrong_status_and_an_endless_body_are_no_reading(engine, reader) -> None:
    target = Target(replica="a", profile="fast", revision=3, url=f"http://127.0.0.1:{engine.port}/other", api_key="k")
    assert reader.read([target], now=1.0) == {}
    engine.text = "x" * (MAX_BYTES + 1)
    right = Target(replica="a", profile="fast", revision=3, url=f"http://127.0.0.1:{engine.port}", api_key="k")
    assert reader.read([right], now=1.0) == {}
    assert reader.read([], now=1.0) == {}
