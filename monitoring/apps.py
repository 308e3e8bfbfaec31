"""Registers the monitoring package with Django."""

from django.apps import AppConfig


class MonitoringConfig(AppConfig):
    """Django's handle on the package."""

    name = "monitoring"
    verbose_name = "Monitoring"
    default_auto_field = "django.db.models.BigAutoField"
