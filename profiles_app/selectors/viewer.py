"""Who is looking, and what their roles allow."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from profiles_app.errors import ForbiddenError, NotFoundError
from profiles_app.models import Membership, Team

RANK = MappingProxyType({"viewer": 1, "operator": 2, "admin": 3})


@dataclass(frozen=True, slots=True)
class Viewer:
    """A person or a script, with a role in each of their teams. A superuser is admin everywhere."""

    user_id: int | None
    roles: Mapping[str, str] = field(default_factory=dict)
    is_superuser: bool = False
    username: str = ""

    def can(self, team_slug: str, role: str) -> bool:
        """Whether the viewer has at least ``role`` in the team."""
        return self.is_superuser or RANK.get(self.roles.get(team_slug, ""), 0) >= RANK[role]

    def can_somewhere(self, role: str) -> bool:
        """Whether the viewer has at least ``role`` in any team."""
        return self.is_superuser or any(RANK[held] >= RANK[role] for held in self.roles.values())

    def teams(self) -> tuple[str, ...]:
        """Slugs of the teams that the viewer sees."""
        if self.is_superuser:
            return tuple(Team.objects.values_list("slug", flat=True))
        return tuple(self.roles)

    def require(self, team_slug: str, role: str, *, what: str = "The object") -> None:
        """Raise NotFoundError outside the viewer's teams, ForbiddenError below ``role``."""
        if not self.can(team_slug, "viewer"):
            raise NotFoundError(what)
        if not self.can(team_slug, role):
            raise ForbiddenError(role)

    def require_somewhere(self, role: str) -> None:
        """Raise ForbiddenError unless the viewer has ``role`` in some team: for things that no team owns."""
        if not self.can_somewhere(role):
            raise ForbiddenError(role)


def viewer_for(user: Any) -> Viewer:
    """The viewer behind a Django user; an anonymous or inactive one sees nothing."""
    if not user.is_authenticated or not user.is_active:
        return Viewer(user_id=None)
    roles = dict(Membership.objects.filter(user_id=user.pk).values_list("team__slug", "role"))
    return Viewer(user_id=user.pk, roles=roles, is_superuser=user.is_superuser, username=user.get_username())


def system_viewer() -> Viewer:
    """The viewer for Forebay's own commands on the host, where the shell's user is the administrator."""
    return Viewer(user_id=None, is_superuser=True, username="system")
