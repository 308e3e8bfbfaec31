"""The real stack with a fake engine: one for the whole run, and a new one for tests that kill or stop it all."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.client import Caller
from tests.e2e.stack import Stack, make_template


@pytest.fixture(scope="session")
def template() -> Iterator[Path]:
    """A data directory that is migrated and seeded once."""
    place = make_template()
    yield place
    shutil.rmtree(place)


@pytest.fixture(scope="session")
def shared_stack(template: Path) -> Iterator[Stack]:
    """A running stack for all tests that leave it running."""
    stack = Stack(template)
    try:
        stack.start()
        yield stack
    finally:
        stack.close()


@pytest.fixture
def stack(shared_stack: Stack) -> Iterator[Stack]:
    """The shared stack; what a test deployed is ended after it."""
    yield shared_stack
    shared_stack.script()
    rows = shared_stack.get("deployments/")["results"]
    for row in rows:
        if row["status"] != "stopped":
            shared_stack.drain(row["id"], drain_seconds=0)
    for row in rows:
        shared_stack.until(row["id"], "stopped")


@pytest.fixture
def own_stack(template: Path) -> Iterator[Stack]:
    """A stack that is not started yet, for tests that end all of it."""
    stack = Stack(template)
    try:
        yield stack
    finally:
        stack.close()


@pytest.fixture(scope="session")
def shared_caller(shared_stack: Stack) -> Iterator[Caller]:
    """An application with a key for everything."""
    caller = Caller(shared_stack, shared_stack.key())
    yield caller
    caller.close()


@pytest.fixture
def caller(stack: Stack, shared_caller: Caller) -> Caller:
    """The application."""
    shared_caller.ids.clear()
    return shared_caller
