"""The Celery application. Tasks are short commands; the truth is in the database."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings.prod")

app = Celery("forebay")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
