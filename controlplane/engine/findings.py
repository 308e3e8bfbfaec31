"""What can be wrong with a set-up, as values: a stable id, a sentence, and what to do about it."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Literal

Level = Literal["error", "warning", "info", "ok"]

Report = Callable[[str, str, float | None], None]
"""`report(step, detail, fraction)`: fraction is 0..1, or None while it is not known."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One finding of `forebay doctor`. `id` never changes its meaning between versions."""

    id: str
    level: Level
    title: str
    detail: str = ""
    fix: str = ""

    def as_dict(self) -> dict[str, str]:
        """The finding as plain JSON."""
        return asdict(self)


class SetupError(Exception):
    """A set-up step cannot go on; carries the finding that says why and what to do."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(f"{finding.id} {finding.title}: {finding.detail}")
        self.finding = finding


def silent(step: str, detail: str, fraction: float | None) -> None:
    """The report callback for callers that show nothing."""
