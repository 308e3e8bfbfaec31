"""Sends telemetry models to their own database, and keeps every relation inside one."""

from typing import Any

TELEMETRY_MODELS = frozenset({("gateway", "usagerecord"), ("monitoring", "rollup"), ("monitoring", "ingestcursor")})


def is_telemetry(app_label: str, model_name: str | None) -> bool:
    """Whether the model's rows live in the telemetry database."""
    return (app_label, (model_name or "").lower()) in TELEMETRY_MODELS


class TelemetryRouter:
    """Django's database router for the two databases."""

    def _alias(self, model: Any) -> str:
        return "telemetry" if is_telemetry(model._meta.app_label, model._meta.model_name) else "default"

    def db_for_read(self, model: Any, **hints: Any) -> str:
        """Alias to read ``model`` from."""
        return self._alias(model)

    def db_for_write(self, model: Any, **hints: Any) -> str:
        """Alias to write ``model`` to."""
        return self._alias(model)

    def allow_relation(self, one: Any, two: Any, **hints: Any) -> bool:
        """A relation must not cross the databases."""
        return self._alias(one) == self._alias(two)

    def allow_migrate(self, db: str, app_label: str, model_name: str | None = None, **hints: Any) -> bool:
        """Tables are made only in the database that holds their rows."""
        wanted = "telemetry" if is_telemetry(app_label, model_name) else "default"
        return db == wanted
