"""Which replica takes the next request: the one with the fewest in flight."""

from collections.abc import Callable, Collection, Sequence


class Router:
    """Least-loaded choice; a replica that failed lately comes last for `cool_seconds`."""

    def __init__(self, *, cool_seconds: float) -> None:
        self._cool_seconds = cool_seconds
        self._cooling: dict[str, float] = {}
        self._turn = 0

    def failed(self, replica_id: str, *, mono: float) -> None:
        """Remember an upstream failure. A lost client is none and must never be told here."""
        self._cooling = {one: until for one, until in self._cooling.items() if until > mono}
        self._cooling[replica_id] = mono + self._cool_seconds

    def choose(
        self,
        ready: Sequence[str],
        *,
        in_flight: Callable[[str], int],
        tried: Collection[str] = (),
        mono: float,
    ) -> str | None:
        """The best of the ready replicas, None when there is none.

        Replicas that were not tried come first, then those that did not fail lately, then the
        least loaded. Equals take turns, so that an idle set is used evenly.
        """
        if not ready:
            return None
        self._turn = (self._turn + 1) % len(ready)
        rotated = [*ready[self._turn :], *ready[: self._turn]]
        return min(rotated, key=lambda one: (one in tried, self._cooling.get(one, 0.0) > mono, in_flight(one)))
