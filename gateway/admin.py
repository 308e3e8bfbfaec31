"""Keys in Django's break-glass admin: seen without their hash, revoked by the service."""

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone

from gateway.models import ApiKey
from gateway.services import key_revoke
from profiles_app.admin import ReadOnlyAdmin
from profiles_app.selectors import viewer_for


@admin.register(ApiKey)
class ApiKeyAdmin(ReadOnlyAdmin):
    """Keys; an action revokes."""

    list_display = ("name", "prefix", "team", "all_profiles", "expires_at", "revoked_at", "internal")
    hidden = ("key_hash",)
    actions = ("revoke",)

    @admin.action(description="Revoke", permissions=["view"])
    def revoke(self, request: HttpRequest, rows: QuerySet[ApiKey]) -> None:
        """End these keys."""
        viewer, now = viewer_for(request.user), timezone.now()
        self.each(request, rows, lambda row: key_revoke(viewer, key=row, now=now))
