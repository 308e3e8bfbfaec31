"""Wake-ups: after a commit, a hint by task name that there is work. Losing one costs the time to the next timer."""

import logging
import socket
from typing import Any
from urllib.parse import urlsplit

from celery import current_app
from django.conf import settings
from django.db import transaction
from kombu.exceptions import OperationalError

logger = logging.getLogger(__name__)

DEPLOYMENT_PASS = "profiles_app.deployment_pass"  # noqa: S105 - a pass of the loop, no password
NODE_PASS = "profiles_app.node_pass"  # noqa: S105 - a pass of the loop, no password
GATEWAY_PUBLISH = "gateway.publish"
GATEWAY_DRAIN_REPORT = "gateway.drain_report"
HINT_SECONDS = 30
CONNECT_SECONDS = 0.5


def node_queue(node_name: str) -> str:
    """The Celery queue that only the node's own worker reads."""
    return f"node.{node_name}"


def broker_answers() -> bool:
    """Whether something accepts connections at the broker's address.

    The client library retries a lost broker for six seconds; a person's request must not wait that long for a hint.
    """
    address = urlsplit(settings.CELERY_BROKER_URL)
    if address.scheme == "memory":
        return True
    unix = address.scheme.startswith("redis+socket")
    with socket.socket(socket.AF_UNIX if unix else socket.AF_INET) as probe:
        probe.settimeout(CONNECT_SECONDS)
        try:
            probe.connect(address.path if unix else (address.hostname or "127.0.0.1", address.port or 6379))
        except OSError:
            return False
    return True


def send(task: str, *args: Any, queue: str = "control") -> bool:
    """Send a hint now. False when the broker cannot be reached: the next timer finds the work."""
    if not broker_answers():
        logger.warning("wake-up %s was not sent: the broker does not answer", task)
        return False
    try:
        current_app.send_task(task, args=args, queue=queue, expires=HINT_SECONDS)
    except (OperationalError, OSError) as error:
        logger.warning("wake-up %s was not sent: %s", task, error)
        return False
    return True


def after_commit(task: str, *args: Any, queue: str = "control") -> None:
    """Send the hint once the running transaction is committed (at once outside of one)."""
    transaction.on_commit(lambda: send(task, *args, queue=queue))


def wake_deployments() -> None:
    """There is a wish to look at."""
    after_commit(DEPLOYMENT_PASS)


def wake_node(node_name: str) -> None:
    """There is something to start or stop on the node."""
    after_commit(NODE_PASS, node_name, queue=node_queue(node_name))


def wake_gateway() -> None:
    """What may be routed to has changed."""
    after_commit(GATEWAY_PUBLISH)
