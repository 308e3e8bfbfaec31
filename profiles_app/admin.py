"""Django's own admin as break-glass: everything can be read, nothing edited; its actions call the services."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.db.models import Model as DjangoModel
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone

from profiles_app import models
from profiles_app.errors import DomainError
from profiles_app.selectors import viewer_for
from profiles_app.services.deployments import deployment_retry, deployment_stop
from profiles_app.services.nodes import node_cordon

if TYPE_CHECKING:
    Base = admin.ModelAdmin[DjangoModel]
else:
    Base = admin.ModelAdmin


class ReadOnlyAdmin(Base):
    """Rows can be seen by who may see the admin at all. Deletes, bulk ones included, do not exist here."""

    hidden: tuple[str, ...] = ()

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Nothing is made here."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Nothing is edited here."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Nothing is deleted here: a row without its process, or the other way round, is what Forebay prevents."""
        return False

    def get_exclude(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        """Secrets are not shown."""
        return self.hidden

    def each(self, request: HttpRequest, rows: QuerySet[Any], act: Callable[[Any], object]) -> None:
        """Call a service for each row, and say what came of it."""
        for row in rows:
            try:
                act(row)
            except DomainError as error:
                self.message_user(request, f"{row}: {error.message}", messages.ERROR)
            else:
                self.message_user(request, f"{row}: done.")


@admin.register(models.Deployment)
class DeploymentAdmin(ReadOnlyAdmin):
    """Deployments, with the two actions that help at 3 a.m."""

    list_display = ("profile", "revision", "replicas_wanted", "generation", "observed_generation")
    actions = ("drain_and_stop", "try_again")

    @admin.action(description="Drain and stop", permissions=["view"])
    def drain_and_stop(self, request: HttpRequest, rows: QuerySet[models.Deployment]) -> None:
        """Drain every replica and stop it."""
        viewer, now = viewer_for(request.user), timezone.now()
        self.each(request, rows, lambda row: deployment_stop(viewer, deployment=row, now=now))

    @admin.action(description="Try failed slots again", permissions=["view"])
    def try_again(self, request: HttpRequest, rows: QuerySet[models.Deployment]) -> None:
        """Forget failed starts."""
        viewer, now = viewer_for(request.user), timezone.now()
        self.each(request, rows, lambda row: deployment_retry(viewer, deployment=row, now=now))


@admin.register(models.Node)
class NodeAdmin(ReadOnlyAdmin):
    """Nodes; an action cordons."""

    list_display = ("name", "kind", "cores", "last_seen", "lease_until", "cordoned", "stopping")
    actions = ("cordon", "uncordon")

    @admin.action(description="Cordon: place nothing new", permissions=["view"])
    def cordon(self, request: HttpRequest, rows: QuerySet[models.Node]) -> None:
        """Place nothing new on these nodes."""
        viewer = viewer_for(request.user)
        self.each(request, rows, lambda row: node_cordon(viewer, node=row, cordoned=True))

    @admin.action(description="Uncordon", permissions=["view"])
    def uncordon(self, request: HttpRequest, rows: QuerySet[models.Node]) -> None:
        """Allow these nodes again."""
        viewer = viewer_for(request.user)
        self.each(request, rows, lambda row: node_cordon(viewer, node=row, cordoned=False))


@admin.register(models.Replica)
class ReplicaAdmin(ReadOnlyAdmin):
    """Replicas, newest first, without their secrets."""

    list_display = ("id", "deployment", "slot", "phase", "reason", "node", "port", "pid", "phase_since")
    list_filter = ("phase",)
    ordering = ("-created_at",)
    hidden = ("api_key", "marker", "record")


@admin.register(models.Transition)
class TransitionAdmin(ReadOnlyAdmin):
    """Every move of every replica."""

    list_display = ("at", "replica", "old", "new", "reason", "message")
    ordering = ("-at",)


@admin.register(models.AuditEntry)
class AuditAdmin(ReadOnlyAdmin):
    """Who changed what."""

    list_display = ("at", "actor", "team", "action", "target")
    list_filter = ("action",)


@admin.register(
    models.Team,
    models.Membership,
    models.Model,
    models.ModelVersion,
    models.Profile,
    models.Revision,
    models.Gpu,
    models.EngineInstall,
    models.Lease,
)
class PlainAdmin(ReadOnlyAdmin):
    """Everything else that may be looked at."""
