"""Writes users' first steps: the one-time link, the first administrator, memberships."""

import hashlib
import secrets
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import transaction

from profiles_app.errors import DomainError
from profiles_app.models import Membership, SetupToken, Team
from profiles_app.selectors.setup import setup_is_open

SETUP_HOURS = 24


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def setup_token_create(*, now: datetime) -> str | None:
    """Make the one-time token of the first administrator and forget older ones. None once a user exists."""
    if not setup_is_open():
        return None
    token = secrets.token_urlsafe(32)
    with transaction.atomic():
        SetupToken.objects.all().delete()
        SetupToken.objects.create(token_hash=_hash(token), expires_at=now + timedelta(hours=SETUP_HOURS))
    return token


def setup_token_is_valid(token: str, *, now: datetime) -> bool:
    """Whether the token still opens the set-up page."""
    return setup_is_open() and SetupToken.objects.filter(token_hash=_hash(token), expires_at__gt=now).exists()


def first_administrator_create(*, token: str, username: str, password: str, now: datetime) -> Any:
    """Make the first administrator and use the token up. Raises DomainError."""
    user_model = get_user_model()
    user = user_model(username=username)
    try:
        user.clean_fields(exclude=["password"])
        validate_password(password, user=user)
    except ValidationError as error:
        field = "username" if "username" in getattr(error, "message_dict", {}) else "password"
        raise DomainError("invalid", " ".join(error.messages), status=422, field=field) from error
    with transaction.atomic():
        used, _ = SetupToken.objects.filter(token_hash=_hash(token), expires_at__gt=now).delete()
        if not used or not setup_is_open():
            raise DomainError(
                "setup_closed", "This link was used or has expired. Run `forebay up` again for a new one.", status=410
            )
        user = user_model.objects.create_superuser(username=username, password=password)
        membership_set(user=user, team=team_default(), role="admin")
    return user


def team_default() -> Team:
    """The team that every installation has."""
    return Team.objects.get_or_create(slug="default", defaults={"name": "Default"})[0]


def membership_set(*, user: Any, team: Team, role: str) -> Membership:
    """Give the user this role in the team."""
    return Membership.objects.update_or_create(user=user, team=team, defaults={"role": role})[0]
