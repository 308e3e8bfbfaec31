"""Who may ask for what, how much at once, and which replica gets it."""

import asyncio
from collections import Counter

import pytest

from gateway.proxy.admission import Admission
from gateway.proxy.auth import authenticate, bearer, may_use, usable_profile
from gateway.proxy.interrupt import Interrupted, Interruptible
from gateway.proxy.openai import Refusal
from gateway.proxy.router import Router
from tests.unit.gateway_proxy.harness import KEY, hashed, key, profile, table


@pytest.mark.parametrize(
    ("header", "token"),
    [
        (None, None),
        (b"", None),
        (b"Basic abc", None),
        (b"Bearer ", None),
        (b"Bearer abc", b"abc"),
        (b"bearer  abc ", b"abc"),
    ],
)
def test_a_bearer_token_is_read(header: bytes | None, token: bytes | None) -> None:
    assert bearer(header) == token


def test_a_known_key_is_let_in_until_it_expires() -> None:
    rows = table(keys={hashed(KEY): key(expires_at=200.0)})
    header = f"Bearer {KEY}".encode()
    assert authenticate(rows, header=header, now=199.9).id == "k1"
    with pytest.raises(Refusal, match="expired_api_key"):
        authenticate(rows, header=header, now=200)


def test_a_key_without_an_end_does_not_expire() -> None:
    assert authenticate(table(), header=f"Bearer {KEY}".encode(), now=1e12).id == "k1"


@pytest.mark.parametrize(("header", "code"), [(None, "missing_api_key"), (b"Bearer wrong-secret", "invalid_api_key")])
def test_a_missing_or_wrong_key_is_401_and_no_message_shows_it(header: bytes | None, code: str) -> None:
    with pytest.raises(Refusal, match=code) as caught:
        authenticate(table(), header=header, now=0)
    assert caught.value.status == 401
    assert "wrong-secret" not in caught.value.message


def test_a_key_reaches_its_profiles_and_no_other_teams() -> None:
    assert may_use(key(), "fast", profile())
    assert may_use(key(profiles=("fast",)), "fast", profile())
    assert not may_use(key(profiles=("slow",)), "fast", profile())
    assert not may_use(key(team="other"), "fast", profile())


def test_a_forbidden_profile_looks_exactly_like_an_unknown_one() -> None:
    refusals = []
    for rows in (table(), table(profiles={})):
        with pytest.raises(Refusal) as caught:
            usable_profile(rows, key=key(team="other"), name="fast")
        refusals.append((caught.value.status, caught.value.body()))
    assert refusals[0] == refusals[1]
    assert usable_profile(table(), key=key(), name="fast") == profile()


def test_the_limits_of_key_and_profile_hold_and_places_come_back() -> None:
    admission = Admission()
    rows = {"key": key(max_concurrency=1), "name": "fast", "profile": profile(max_concurrency=2)}
    with admission.admit(**rows):
        with pytest.raises(Refusal, match="key_concurrency") as caught:
            admission.admit(**rows)
        assert (caught.value.status, caught.value.retry_after) == (429, 1)
        other = {**rows, "key": key(id="k2")}
        with admission.admit(**other), pytest.raises(Refusal, match="profile_concurrency"):
            admission.admit(**{**rows, "key": key(id="k3")})
        with pytest.raises(ZeroDivisionError), admission.admit(**other):
            raise ZeroDivisionError
    assert admission.counts == {}


def test_no_limit_means_no_limit() -> None:
    admission = Admission()
    for _ in range(100):
        admission.admit(key=key(), name="fast", profile=profile(max_concurrency=None)).__enter__()
    assert admission.counts == {"key:k1": 100, "profile:fast": 100}


def test_the_least_loaded_replica_is_chosen() -> None:
    router = Router(cool_seconds=2)
    loads = {"a": 3, "b": 1, "c": 2}
    assert {router.choose(["a", "b", "c"], in_flight=loads.__getitem__, mono=0) for _ in range(6)} == {"b"}


def test_equals_take_turns() -> None:
    router = Router(cool_seconds=2)
    chosen = Counter(router.choose(["a", "b", "c"], in_flight=lambda _: 0, mono=0) for _ in range(30))
    assert chosen == {"a": 10, "b": 10, "c": 10}


def test_no_replica_no_choice() -> None:
    assert Router(cool_seconds=2).choose([], in_flight=lambda _: 0, mono=0) is None


def test_a_replica_that_failed_comes_last_for_a_while() -> None:
    router = Router(cool_seconds=2)
    loads = {"a": 0, "b": 9}
    router.failed("z", mono=0)
    router.failed("a", mono=10)
    assert router.choose(["a", "b"], in_flight=loads.__getitem__, mono=11.9) == "b"
    assert router.choose(["a"], in_flight=loads.__getitem__, mono=11.9) == "a"
    assert router.choose(["a", "b"], in_flight=loads.__getitem__, mono=12) == "a"


def test_a_tried_replica_is_asked_again_only_when_there_is_no_other() -> None:
    router = Router(cool_seconds=2)
    assert router.choose(["a", "b"], in_flight=lambda _: 0, tried=["a"], mono=0) == "b"
    assert router.choose(["a"], in_flight=lambda _: 0, tried=["a"], mono=0) == "a"


@pytest.mark.asyncio
async def test_an_interrupt_ends_its_block_with_the_first_reason() -> None:
    interrupt = Interruptible()
    asyncio.get_running_loop().call_soon(lambda: (interrupt.fire("cut"), interrupt.fire("client_gone")))
    with pytest.raises(Interrupted) as caught, interrupt:
        await asyncio.sleep(5)
    assert caught.value.reason == "cut"
    task = asyncio.current_task()
    assert task is not None and task.cancelling() == 0


@pytest.mark.asyncio
async def test_an_interrupt_outside_its_block_does_nothing() -> None:
    interrupt = Interruptible()
    assert not interrupt.fire("cut")
    interrupt.__exit__(None, None, None)
    with interrupt:
        pass
    assert not interrupt.fire("cut")


@pytest.mark.asyncio
async def test_a_cancellation_from_outside_stays_one() -> None:
    interrupt = Interruptible()

    async def work() -> None:
        with interrupt:
            await asyncio.sleep(5)

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    interrupt.fire("cut")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
