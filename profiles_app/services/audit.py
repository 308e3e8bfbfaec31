"""Writes the audit log, inside the transaction of the change that it tells of."""

from typing import Any

from profiles_app.models import AuditEntry, Team
from profiles_app.selectors.viewer import Viewer


def audit_record(viewer: Viewer, *, team: Team | None, action: str, target: str, **detail: Any) -> None:
    """Note that the viewer did ``action`` to ``target``. ``detail`` is JSON data without secrets."""
    AuditEntry.objects.create(actor_id=viewer.user_id, team=team, action=action, target=target, detail=detail)
