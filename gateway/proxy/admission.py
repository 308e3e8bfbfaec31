"""How many requests a key and a profile may have in flight in this process."""

from types import TracebackType
from typing import Self

from gateway.proxy.openai import Refusal
from gateway.proxy.table import TableKey, TableProfile

RETRY_AFTER_SECONDS = 1


class Slot:
    """One admitted request. Leaving the block gives the places back, however it is left."""

    def __init__(self, counts: dict[str, int], names: tuple[str, ...]) -> None:
        self._counts = counts
        self._names = names

    def __enter__(self) -> Self:
        for name in self._names:
            self._counts[name] = self._counts.get(name, 0) + 1
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        for name in self._names:
            left = self._counts[name] - 1
            if left:
                self._counts[name] = left
            else:
                del self._counts[name]


class Admission:
    """Counts of admitted requests; names without a request are not kept."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def admit(self, *, key: TableKey, name: str, profile: TableProfile) -> Slot:
        """A slot to enter at once; raises Refusal (429) when the key or the profile is full."""
        by_key, by_profile = f"key:{key.id}", f"profile:{name}"
        self._check(by_key, key.max_concurrency, "key_concurrency", "This API key")
        self._check(by_profile, profile.max_concurrency, "profile_concurrency", f"The profile `{name}`")
        return Slot(self.counts, (by_key, by_profile))

    def _check(self, name: str, limit: int | None, code: str, subject: str) -> None:
        if limit is not None and self.counts.get(name, 0) >= limit:
            message = f"{subject} already has {limit} requests in flight, which is its limit."
            raise Refusal(429, code, message, retry_after=RETRY_AFTER_SECONDS)
