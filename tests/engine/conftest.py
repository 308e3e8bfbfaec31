"""The real stack with the real engine, one for all tests of this folder."""

import shutil
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.real_stack import RealStack, deployment_until, new_root


@pytest.fixture(scope="session")
def stack() -> Iterator[RealStack]:
    """`forebay up`, set up, with an administrator; at the end nothing of it may be left."""
    root = new_root()
    stack = RealStack(root)
    try:
        stack.start()
        stack.wait_for_setup()
        stack.make_administrator()
        yield stack
        assert stack.stop() == 0, stack.text()
        assert stack.leftovers() == []
    finally:
        stack.stop()
        shutil.rmtree(root, ignore_errors=True)


@pytest.fixture(scope="session")
def api(stack: RealStack) -> Iterator[httpx.Client]:
    """The REST API as the administrator."""
    with stack.client(stack.token()) as client:
        yield client


@pytest.fixture(scope="session")
def deployment(api: httpx.Client) -> dict[str, Any]:
    """The low-latency demo profile, deployed and ready."""
    answer = api.post("deployments/", json={"profile": "low-latency", "replicas": 1}).raise_for_status().json()
    return deployment_until(api, answer["id"], "ready", seconds=240)


@pytest.fixture(scope="session")
def key(api: httpx.Client, deployment: dict[str, Any]) -> str:
    """A key of the gateway for every profile of the team."""
    answer = api.post("keys/", json={"name": "tests", "team": "default", "profiles": ["*"]}).raise_for_status()
    secret: str = answer.json()["key"]
    return secret
