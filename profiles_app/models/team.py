"""Teams, and who may do what in them."""

from django.conf import settings
from django.db import models


class Role(models.TextChoices):
    """What a member may do: look, operate, or administer. Each includes the ones before it."""

    VIEWER = "viewer", "Viewer"
    OPERATOR = "operator", "Operator"
    ADMIN = "admin", "Admin"


class Team(models.Model):
    """The owner of profiles, deployments, keys and usage."""

    slug = models.SlugField(unique=True)
    name = models.CharField(max_length=100)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("slug",)

    def __str__(self) -> str:
        return self.name


class Membership(models.Model):
    """One person's role in one team."""

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=10, choices=Role)

    class Meta:
        constraints = (models.UniqueConstraint(fields=("team", "user"), name="one_role_a_team"),)

    def __str__(self) -> str:
        return f"{self.user} is {self.role} in {self.team}"
