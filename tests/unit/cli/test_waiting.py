"""When a wait ends, and what is told meanwhile."""

from itertools import chain, repeat
from typing import Any

import pytest

from controlplane.client.waiting import judge_drain, judge_start, progress, wait_for


def replica(**changes: Any) -> dict[str, Any]:
    """A ready replica of revision 2."""
    row = {"slot": 0, "revision": 2, "wanted": True, "phase": "ready", "reason": "Proven", "message": "", "drain": None}
    return row | changes


def deployment(**changes: Any) -> dict[str, Any]:
    """A deployment that is as it was wished."""
    row = {
        "profile": "fast",
        "revision": 2,
        "status": "ready",
        "ready": 1,
        "wanted": 1,
        "generation": 3,
        "observed_generation": 3,
        "replicas": [replica()],
        "last_failure": None,
    }
    return row | changes


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({}, True),
        ({"observed_generation": 2}, None),
        ({"status": "starting", "ready": 0, "replicas": [replica(phase="starting")]}, None),
        ({"replicas": [replica(revision=1)]}, None),
        ({"replicas": [replica(wanted=False)]}, None),
        ({"status": "failed"}, False),
        ({"status": "stopped", "wanted": 0, "replicas": []}, True),
        ({"status": "stopped", "wanted": 1, "replicas": []}, None),
    ],
)
def test_a_start_is_over_when_the_wished_revision_serves_or_cannot(changes: Any, verdict: bool | None) -> None:
    found = judge_start(deployment(**changes))
    assert (found[0] if found else None) is verdict


def test_a_failed_start_says_why_and_what_to_do() -> None:
    failure = {"message": "Out of memory.", "fix": "Lower kv_cache_mib."}
    verdict = judge_start(deployment(status="failed", last_failure=failure))
    assert verdict == (False, "fast failed: Out of memory. Lower kv_cache_mib.")
    unexplained = judge_start(deployment(status="failed"))
    assert unexplained is not None
    assert "forebay logs" in unexplained[1]


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({"wanted": 0, "status": "draining"}, None),
        ({"wanted": 0, "status": "stopped"}, True),
        ({"wanted": 1, "status": "draining"}, False),
    ],
)
def test_a_drain_is_over_when_nothing_runs_or_somebody_deployed_again(changes: Any, verdict: bool | None) -> None:
    found = judge_drain(deployment(**changes))
    assert (found[0] if found else None) is verdict


@pytest.mark.parametrize(
    ("drain", "words"),
    [
        ({"in_flight": 3, "waiting_for": []}, "[3 in flight]"),
        ({"in_flight": None, "waiting_for": ["gw"]}, "[in flight unknown, waiting for gw]"),
    ],
)
def test_progress_tells_what_a_drain_waits_for(drain: Any, words: str) -> None:
    assert progress(deployment(replicas=[replica(phase="draining", drain=drain)])).endswith(words)


def test_a_wait_tells_each_change_once_and_ends_with_the_verdict() -> None:
    start = deployment(status="starting", ready=0, replicas=[])
    seen = iter([start, start, deployment()])
    told: list[str] = []
    outcome = wait_for(lambda: next(seen), judge_start, tell=told.append, timeout_seconds=60, poll_seconds=0)
    assert (outcome.ok, outcome.message, len(told)) == (True, "fast is ready: 1 of 1.", 1)


def test_a_wait_ends_at_its_bound() -> None:
    seen = chain(repeat(deployment(status="starting", replicas=[])))
    outcome = wait_for(lambda: next(seen), judge_start, tell=lambda _: None, timeout_seconds=0)
    assert not outcome.ok
    assert "still starting after 0 s" in outcome.message
