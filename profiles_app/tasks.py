"""Celery tasks of the control plane: short, idempotent, each calls one pass."""

from celery import shared_task
from django.utils import timezone

from profiles_app.reconciler import deployment
from profiles_app.wakeups import DEPLOYMENT_PASS


@shared_task(name=DEPLOYMENT_PASS)
def deployment_pass() -> None:
    """Compare wishes with replicas and place what is pending."""
    deployment.run_pass(now=timezone.now())
