"""Wake-ups are sent after the commit or not at all, survive a dead broker, and none is lost by the node's gate."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction

from profiles_app.agent import PassGate
from profiles_app.wakeups import (
    DEPLOYMENT_PASS,
    GATEWAY_PUBLISH,
    NODE_PASS,
    node_queue,
    send,
    wake_deployments,
    wake_gateway,
    wake_node,
)
from tests.factories import Wakeup

WAIT_SECONDS = 20.0


class RolledBackError(Exception):
    """Ends a transaction of a test."""


@pytest.mark.django_db(transaction=True)
def test_nothing_is_sent_before_the_commit(sent: list[Wakeup]) -> None:
    with transaction.atomic():
        wake_deployments()
        wake_node("node-a")
        wake_gateway()
        assert sent == []
    assert sent == [Wakeup(DEPLOYMENT_PASS), Wakeup(NODE_PASS, ("node-a",), "node.node-a"), Wakeup(GATEWAY_PUBLISH)]


@pytest.mark.django_db(transaction=True)
def test_nothing_is_sent_after_a_rollback(sent: list[Wakeup]) -> None:
    with pytest.raises(RolledBackError), transaction.atomic():
        wake_deployments()
        raise RolledBackError
    assert sent == []


@pytest.mark.django_db(transaction=True)
def test_outside_of_a_transaction_it_is_sent_at_once(sent: list[Wakeup]) -> None:
    wake_gateway()
    assert sent == [Wakeup(GATEWAY_PUBLISH)]


@pytest.mark.django_db(transaction=True)
def test_a_change_is_kept_although_nobody_could_be_woken(settings: Any, tmp_path: Path) -> None:
    settings.CELERY_BROKER_URL = f"redis+socket://{tmp_path}/none.sock"
    assert not send(DEPLOYMENT_PASS)
    with transaction.atomic():
        wake_deployments()


def test_a_message_reaches_the_broker() -> None:
    assert send(NODE_PASS, "node-a", queue=node_queue("node-a"))


def test_a_pass_runs_once_for_one_wake_up() -> None:
    ran: list[int] = []
    assert PassGate(lambda: ran.append(1)).run()
    assert ran == [1]


def test_a_wake_up_during_a_pass_makes_it_run_once_more() -> None:
    entered, go_on, ran = threading.Event(), threading.Event(), []

    def work() -> None:
        ran.append(threading.get_ident())
        entered.set()
        assert go_on.wait(WAIT_SECONDS)

    gate = PassGate(work)
    runner = threading.Thread(target=gate.run)
    runner.start()
    assert entered.wait(WAIT_SECONDS)
    assert not gate.run()
    assert not gate.run()
    go_on.set()
    runner.join(WAIT_SECONDS)
    assert len(ran) == 2
    assert len(set(ran)) == 1


def test_a_pass_that_fails_leaves_the_gate_open() -> None:
    outcomes = iter([ValueError("no database"), None])

    def work() -> None:
        if error := next(outcomes):
            raise error

    gate = PassGate(work)
    with pytest.raises(ValueError, match="no database"):
        gate.run()
    assert gate.run()


class LockWithLateWord:
    """The gate's lock, released with the worst timing: a wake-up comes after the last look, just before the release."""

    def __init__(self, wake: Callable[[], bool]) -> None:
        self._lock = threading.Lock()
        self._wake = wake
        self.answers: list[bool] = []

    def acquire(self, *, blocking: bool) -> bool:
        return self._lock.acquire(blocking=blocking)

    def release(self) -> None:
        if not self.answers:
            self.answers.append(self._wake())
        self._lock.release()


def test_a_wake_up_between_the_last_look_and_the_release_is_not_lost() -> None:
    ran: list[int] = []
    gate = PassGate(lambda: ran.append(1))
    lock = LockWithLateWord(gate.run)
    gate._running = lock  # type: ignore[assignment] # only this lock lets a test choose the moment
    assert gate.run()
    assert lock.answers == [False]
    assert ran == [1, 1]


def test_passes_never_overlap_and_every_wake_up_is_followed_by_a_whole_pass() -> None:
    """Each thread leaves a mark and wakes the gate; a lost wake-up would leave a mark that no pass has seen."""
    marks: set[int] = set()
    seen: set[int] = set()
    inside = threading.Lock()

    def work() -> None:
        assert inside.acquire(blocking=False)
        seen.update(marks)
        inside.release()

    gate = PassGate(work)

    def wake(first: int) -> None:
        for mark in range(first, first + 300):
            marks.add(mark)
            gate.run()

    threads = [threading.Thread(target=wake, args=(number * 1000,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_SECONDS)
    assert seen == marks
