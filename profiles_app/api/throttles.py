"""Bounds how often a name and password may be tried."""

import hashlib
from typing import Any

from rest_framework.request import Request
from rest_framework.throttling import SimpleRateThrottle

ATTEMPTS = "10/min"


class LoginByAddress(SimpleRateThrottle):
    """Attempts from one peer. X-Forwarded-For is not read: whoever tries passwords writes it anew each time."""

    scope = "login_address"
    rate = ATTEMPTS

    def get_cache_key(self, request: Request, view: Any) -> str | None:
        """One bucket a peer address."""
        return f"throttle_{self.scope}_{request.META.get('REMOTE_ADDR', '')}"


class LoginByName(SimpleRateThrottle):
    """Attempts on one user name, wherever they come from."""

    scope = "login_name"
    rate = ATTEMPTS

    def get_cache_key(self, request: Request, view: Any) -> str | None:
        """One bucket a user name; none for a request that proves itself."""
        data = request.data if isinstance(request.data, dict) else {}
        name = str(data.get("username") or "").casefold()
        digest = hashlib.sha256(name.encode()).hexdigest()
        return f"throttle_{self.scope}_{digest}" if name else None
