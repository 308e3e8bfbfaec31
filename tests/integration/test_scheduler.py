"""The scheduler: one at a time fires, another takes over, and without a broker it does the work itself."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from celery import current_app

from controlplane.scheduler import LEASE, Scheduler, entries
from profiles_app.models import Lease, Replica
from profiles_app.reconciler.timings import timings
from profiles_app.wakeups import DEPLOYMENT_PASS, GATEWAY_DRAIN_REPORT, GATEWAY_PUBLISH
from tests.factories import NOW, Wakeup, make_deployment

pytestmark = [
    pytest.mark.django_db(databases=["default", "telemetry"]),
    pytest.mark.usefixtures("data_dir"),
]
EVERYTHING = [DEPLOYMENT_PASS, GATEWAY_PUBLISH, GATEWAY_DRAIN_REPORT]


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def test_everything_is_due_at_the_start_and_again_after_its_period(sent: list[Wakeup]) -> None:
    scheduler = Scheduler(holder="a")
    assert scheduler.tick(now=NOW, clock=100.0) == EVERYTHING
    assert [hint.task for hint in sent] == EVERYTHING
    assert scheduler.tick(now=NOW, clock=100.9) == []
    assert scheduler.tick(now=NOW, clock=101.0) == [GATEWAY_DRAIN_REPORT]
    assert scheduler.tick(now=NOW, clock=102.0) == EVERYTHING


def test_two_schedulers_never_fire_in_the_same_lease(sent: list[Wakeup]) -> None:
    one, two = Scheduler(holder="a"), Scheduler(holder="b")
    fired = [
        (name, task)
        for second in range(40)
        for name, scheduler in (("a", one), ("b", two))
        for task in scheduler.tick(now=after(second), clock=float(second))
    ]
    assert {name for name, _ in fired} == {"a"}
    assert len(sent) == len(fired)


def test_another_takes_over_after_the_lease_has_run_out_with_a_higher_token(sent: list[Wakeup]) -> None:
    one, two = Scheduler(holder="a"), Scheduler(holder="b")
    lease = timings().scheduler_lease
    assert one.tick(now=NOW, clock=0.0)
    before = Lease.objects.get(pk=LEASE).token
    assert two.tick(now=after(lease - 0.1), clock=0.0) == []
    assert two.tick(now=after(lease), clock=0.0) == EVERYTHING
    assert Lease.objects.get(pk=LEASE).token == before + 1
    assert one.tick(now=after(lease + 1), clock=100.0) == []
    assert len(sent) == 2 * len(EVERYTHING)


def test_a_scheduler_that_ends_lets_another_take_over_at_once(sent: list[Wakeup]) -> None:
    one, two = Scheduler(holder="a"), Scheduler(holder="b")
    one.tick(now=NOW, clock=0.0)
    one.release(now=NOW)
    assert two.tick(now=NOW, clock=0.0) == EVERYTHING


def test_while_the_broker_is_down_the_work_is_done_here(settings: Any, data_dir: Path) -> None:
    settings.CELERY_BROKER_URL = f"redis+socket://{data_dir}/run/none.sock"
    make_deployment()
    assert Scheduler(holder="a").tick(now=NOW, clock=0.0) == EVERYTHING
    assert Replica.objects.count() == 1
    assert (data_dir / "run" / "table.json").exists()


def test_while_the_broker_answers_the_work_is_left_to_the_workers(sent: list[Wakeup], data_dir: Path) -> None:
    make_deployment()
    Scheduler(holder="a").tick(now=NOW, clock=0.0)
    assert Replica.objects.count() == 0
    assert not (data_dir / "run" / "table.json").exists()


def test_every_task_of_the_timetable_is_one_that_workers_know() -> None:
    current_app.loader.import_default_modules()
    assert {entry.task for entry in entries()} <= set(current_app.tasks)
