"""Who asks, and which profiles they may use, decided from the routing table alone."""

import hashlib

from gateway.proxy.openai import Refusal
from gateway.proxy.table import Table, TableKey, TableProfile

_SCHEME = b"bearer "


def bearer(header: bytes | None) -> bytes | None:
    """The token of an Authorization header, None when it holds none."""
    if header is None or header[: len(_SCHEME)].lower() != _SCHEME:
        return None
    return header[len(_SCHEME) :].strip() or None


def authenticate(table: Table, *, header: bytes | None, now: float) -> TableKey:
    """The key row of a request; raises Refusal (401). No message holds the key that was sent."""
    token = bearer(header)
    if token is None:
        raise Refusal(401, "missing_api_key", "Send your API key as `Authorization: Bearer <key>`.")
    key = table.keys.get(hashlib.sha256(token).hexdigest())
    if key is None:
        raise Refusal(401, "invalid_api_key", "This API key is not known.")
    if key.expires_at is not None and key.expires_at <= now:
        raise Refusal(401, "expired_api_key", "This API key has expired.")
    return key


def may_use(key: TableKey, name: str, profile: TableProfile) -> bool:
    """True when the key's team owns the profile and the key's scope holds it."""
    return profile.team == key.team and ("*" in key.profiles or name in key.profiles)


def usable_profile(table: Table, *, key: TableKey, name: str) -> TableProfile:
    """The profile that `model` names; raises the same Refusal (404) for unknown and for forbidden ones."""
    profile = table.profiles.get(name)
    if profile is None or not may_use(key, name, profile):
        message = f"The model `{name[:200]}` does not exist or this key may not use it."
        raise Refusal(404, "model_not_found", message, param="model")
    return profile
