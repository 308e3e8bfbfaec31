"""Runs a pass under its lease: one at a time, never waiting for the one that runs."""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from django.utils import timezone

from profiles_app.services.leases import lease_release, lease_take


def holder_name() -> str:
    """This thread of this process, told apart from every other one."""
    return f"{socket.gethostname()}:{os.getpid()}:{threading.get_ident()}"


@contextmanager
def exclusive(name: str, *, seconds: float) -> Iterator[bool]:
    """Yield whether the lease was had; while another holds it, do nothing. It runs out after ``seconds``."""
    holder = holder_name()
    token = lease_take(name, holder=holder, seconds=seconds, now=timezone.now())
    try:
        yield token is not None
    finally:
        if token is not None:
            lease_release(name, holder=holder, now=timezone.now())
