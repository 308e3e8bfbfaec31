"""Filters of the lists."""

from typing import Any, ClassVar

import django_filters  # type: ignore[import-untyped] # it ships no types
from django.db.models import QuerySet
from django.utils import timezone

from profiles_app.api.rows import deployment_rows, profile_rows
from profiles_app.models import Deployment, Profile
from profiles_app.selectors import Viewer
from profiles_app.states import DeploymentStatus

STATUSES = [(status.value, status.value) for status in DeploymentStatus]


class _ByViewer(django_filters.FilterSet):  # type: ignore[misc] # untyped base
    @property
    def viewer(self) -> Viewer:
        """Who asks."""
        viewer: Viewer = self.request.parser_context["view"].viewer
        return viewer


class ProfileFilter(_ByViewer):
    """Profiles by team, part of the name, and state. A state is computed, so it is looked up row by row."""

    team = django_filters.CharFilter(field_name="team__slug")
    name__contains = django_filters.CharFilter(field_name="name", lookup_expr="icontains")
    state = django_filters.ChoiceFilter(choices=[*STATUSES, ("none", "none")], method="by_state")

    class Meta:
        model = Profile
        fields: ClassVar[list[str]] = []

    def by_state(self, rows: QuerySet[Profile], name: str, value: str) -> QuerySet[Profile]:
        """Profiles whose deployment has this status; none: those without a deployment."""
        listed = profile_rows(self.viewer, rows, now=timezone.now())
        return rows.filter(pk__in=[row.profile.pk for row in listed if row.state == value])


class DeploymentFilter(_ByViewer):
    """Deployments by profile and status."""

    profile = django_filters.CharFilter(field_name="profile__name")
    team = django_filters.CharFilter(field_name="team__slug")
    status = django_filters.ChoiceFilter(choices=STATUSES, method="by_status")

    class Meta:
        model = Deployment
        fields: ClassVar[list[str]] = []

    def by_status(self, rows: QuerySet[Deployment], name: str, value: str) -> QuerySet[Any]:
        """Deployments with this status now."""
        listed = deployment_rows(rows, now=timezone.now())
        return rows.filter(pk__in=[row.row.pk for row in listed if row.state.status == value])
