"""Celery tasks of the control plane: short, idempotent, each calls one pass."""

from celery import shared_task
from django.utils import timezone

from profiles_app.reconciler import deployment
from profiles_app.wakeups import DEPLOYMENT_PASS, NODE_PASS


@shared_task(name=DEPLOYMENT_PASS)
def deployment_pass() -> None:
    """Compare wishes with replicas and place what is pending."""
    deployment.run_pass(now=timezone.now())


@shared_task(name=NODE_PASS)
def node_pass(node_name: str) -> None:
    """Look at this node now instead of at the next timer. Runs in the agent's own process only."""
    # The agent is what listens on the node's queue; importing it here keeps other workers free of its threads.
    from profiles_app.agent import GATE

    GATE.run()
