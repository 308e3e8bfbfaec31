"""Celery tasks of the data plane's control side."""

from celery import shared_task
from django.utils import timezone

from gateway import services
from profiles_app.wakeups import GATEWAY_DRAIN_REPORT, GATEWAY_PUBLISH


@shared_task(name=GATEWAY_PUBLISH)
def publish() -> None:
    """Publish the routing table if it changed."""
    services.table_publish(now=timezone.now())


@shared_task(name=GATEWAY_DRAIN_REPORT)
def drain_report() -> None:
    """Write down what the gateways report of draining replicas."""
    services.drain_reports_write(now=timezone.now())
