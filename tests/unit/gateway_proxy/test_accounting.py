"""In-flight counts, busy time, and the gateway's metrics."""

from gateway.proxy.accounting import CUT_IDS_LIMIT, GatewayReport, Loads
from gateway.proxy.interrupt import Interruptible
from gateway.proxy.metrics import GatewayMetrics, may_read
from tests.unit.gateway_proxy.harness import record


def test_busy_time_is_wall_time_with_a_request_in_flight_not_the_sum_of_requests() -> None:
    now = [0.0]
    loads = Loads(lambda: now[0])
    assert loads.in_flight("r1") == 0
    first = loads.hold("r1", "a", Interruptible())
    second = loads.hold("r1", "b", Interruptible())
    first.__enter__()
    now[0] = 2.0
    second.__enter__()
    now[0] = 3.0
    assert loads.in_flight("r1") == 2
    report = loads.report(mono=3.0)["r1"]
    assert (report.in_flight, report.oldest_age, report.busy_seconds) == (2, 3.0, 3.0)
    first.__exit__(None, None, None)
    assert loads.report(mono=3.0)["r1"].oldest_age == 1.0
    now[0] = 5.0
    second.__exit__(None, None, None)
    report = loads.report(mono=100.0)["r1"]
    assert (report.in_flight, report.oldest_age, report.busy_seconds) == (0, None, 5.0)
    with loads.hold("r1", "c", Interruptible()):
        now[0] = 6.0
        assert loads.report(mono=6.0)["r1"].busy_seconds == 6.0


def test_completed_requests_are_counted_also_for_a_replica_that_was_forgotten() -> None:
    loads = Loads(lambda: 0.0)
    loads.count_completed("r1")
    assert loads.report(mono=0)["r1"].completed == 1


def test_only_the_last_cut_ids_are_kept_and_all_are_counted() -> None:
    loads = Loads(lambda: 0.0)
    with loads.hold("r1", "a", Interruptible()):
        assert loads.rows["r1"].cut() == 0  # its block has ended: nothing to cut
    loads.rows["r1"].cut_ids.extend(f"req_{n}" for n in range(150))
    ids = loads.report(mono=0)["r1"].cut_ids
    assert (len(ids), ids[-1]) == (CUT_IDS_LIMIT, "req_149")


def state(**changes: object) -> GatewayReport:
    loads = Loads(lambda: 0.0)
    loads.hold("r1", "a", Interruptible()).__enter__()
    values = {"process_id": "gw-1", "at": 1.0, "table_version": 7, "table_age": 0.5, "replicas": loads.report(mono=4.0)}
    return GatewayReport(**{**values, "usage_queued": 2, "usage_dropped": 3, "valkey": True, **changes})


def test_metrics_show_requests_tokens_times_and_the_state_of_the_gateway() -> None:
    metrics = GatewayMetrics(state)
    metrics.observe(record(profile="fast", prompt_tokens=11, completion_tokens=3, ttft=0.2, streamed=True))
    metrics.observe(record(status=401, outcome="refused"))
    lines = metrics.render().decode().splitlines()
    for line in (
        'forebay_gateway_requests_total{outcome="completed",profile="fast",status="200"} 1.0',
        'forebay_gateway_requests_total{outcome="refused",profile="",status="401"} 1.0',
        'forebay_gateway_tokens_total{kind="prompt",profile="fast"} 11.0',
        'forebay_gateway_ttft_seconds_count{profile="fast"} 1.0',
        'forebay_gateway_e2e_seconds_count{profile="fast"} 1.0',
        'forebay_gateway_in_flight{replica="r1"} 1.0',
        'forebay_gateway_busy_seconds_total{replica="r1"} 4.0',
        "forebay_gateway_usage_queued 2.0",
        "forebay_gateway_usage_dropped_total 3.0",
        "forebay_gateway_valkey_up 1.0",
        "forebay_gateway_table_version 7.0",
        "forebay_gateway_table_age_seconds 0.5",
    ):
        assert line in lines


def test_what_is_not_known_is_left_out_of_the_metrics() -> None:
    text = GatewayMetrics(lambda: state(table_version=None, table_age=None)).render().decode()
    assert "forebay_gateway_table" not in text


def test_metrics_are_for_the_bearer_of_the_token_or_for_this_host() -> None:
    assert may_read(peer="127.0.0.1", token_sent=None, token=None)
    assert may_read(peer="::1", token_sent=None, token=None)
    assert not may_read(peer="10.0.0.7", token_sent=b"x", token=None)
    assert not may_read(peer=None, token_sent=None, token=None)
    assert may_read(peer="10.0.0.7", token_sent=b"s3", token="s3")
    assert not may_read(peer="127.0.0.1", token_sent=b"s4", token="s3")
    assert not may_read(peer="127.0.0.1", token_sent=None, token="s3")
