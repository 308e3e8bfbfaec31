"""Writes the API tokens by which scripts and the command line act for a person."""

from typing import Any

from django.db import transaction
from rest_framework.authtoken.models import Token

from profiles_app.selectors.viewer import viewer_for
from profiles_app.services.audit import audit_record


def token_issue(user: Any, *, rotate: bool) -> str:
    """The user's API token, made if there is none. ``rotate`` ends the old one and makes another."""
    with transaction.atomic():
        if rotate:
            Token.objects.filter(user=user).delete()
        token, created = Token.objects.get_or_create(user=user)
        if created:
            audit_record(viewer_for(user), team=None, action="token.create", target=user.get_username(), rotate=rotate)
    return str(token.key)
