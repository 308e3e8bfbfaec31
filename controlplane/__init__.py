"""The Django project: wiring only. Nothing below it imports it."""

from controlplane.celery import app as celery_app

__all__ = ["celery_app"]
