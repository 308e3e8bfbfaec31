"""The sentence on top of a page: the worst true thing, with its number. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from profiles_app.web.rows import ProfileRow


@dataclass(frozen=True, slots=True)
class Verdict:
    """``state`` names a mark; ``headline`` is the h1; ``why`` says since when, and what to do."""

    state: str
    headline: str
    why: str = ""
    kicker: str = ""


@dataclass(frozen=True, slots=True)
class Count:
    """One number of the census."""

    state: str
    count: int
    label: str
    url: str = ""


WORDS = {
    "failed": "failed",
    "unknown": "on a node that does not answer",
    "degraded": "below strength",
    "starting": "starting",
    "draining": "draining",
    "queued": "waiting for a place",
    "ready": "ready",
    "stopped": "stopped",
    "none": "not deployed",
}


def overview_verdict(rows: Sequence[ProfileRow], steps: Sequence[Mapping[str, Any]]) -> Verdict:
    """What is worst among the profiles (worst first) and the set-up's steps."""
    stuck = next((step for step in steps if step.get("state") == "failed"), None)
    running = next((step for step in steps if step.get("state") == "running"), None)
    worst = rows[0] if rows else None
    if worst and worst.state in {"failed", "unknown", "degraded"}:
        return _of_profile(worst)
    if stuck:
        why = " ".join(str(stuck[key]) for key in ("detail", "fix") if stuck.get(key))
        return Verdict("bad", f"The set-up stopped at: {stuck.get('title', 'a step')}", why)
    if running:
        return Verdict("progress", f"Setting up: {running.get('title', 'a step')}", str(running.get("detail") or ""))
    if worst is None:
        return Verdict("none", "No profile is stored yet", "Store one to say how a model is served.")
    return _of_profile(worst) if worst.state in {"starting", "draining", "queued"} else _all_well(rows)


def _of_profile(row: ProfileRow) -> Verdict:
    """The verdict where one profile is the worst thing."""
    said = {
        "failed": f"{row.name} has failed",
        "unknown": f"{row.name} is unknown: its node does not answer",
        "degraded": f"{row.name} is below strength: {row.ready} of {row.wanted} replicas ready",
        "starting": f"{row.name} is starting: {row.ready} of {row.wanted} replicas ready",
        "draining": f"{row.name} drains before it stops",
        "queued": f"{row.name} waits for a place to run",
    }
    return Verdict(row.state, said[row.state], row.message)


def _all_well(rows: Sequence[ProfileRow]) -> Verdict:
    ready = [row for row in rows if row.state == "ready"]
    if not ready:
        stored = f"{len(rows)} profiles are stored" if len(rows) != 1 else f"{rows[0].name} is stored"
        return Verdict("stopped", f"{stored}, none is running", "Deploy one to send it requests.", "Nothing runs")
    if len(ready) == 1:
        headline = f"{ready[0].name} is ready on {ready[0].ready} of {ready[0].wanted} replicas"
    else:
        headline = f"All {len(ready)} deployed profiles are ready"
    return Verdict("ready", headline, "No deployment needs anything.", "Well")


def census(rows: Sequence[ProfileRow], *, base: str) -> list[Count]:
    """Profiles counted by state, worst first; each links to the list filtered by it."""
    counts = Counter(row.state for row in rows)
    return [
        Count(state=state, count=counts[state], label=word, url=f"{base}?state={state}")
        for state, word in WORDS.items()
        if counts[state]
    ]


def deployment_verdict(row: ProfileRow, *, generation_behind: bool) -> Verdict:
    """What to read first on a deployment's page."""
    if row.state in {"failed", "unknown", "degraded", "starting", "draining", "queued"}:
        return _of_profile(row)
    if row.state == "ready":
        noun = "replica is" if row.ready == 1 else "replicas are"
        extra = f" Revision r{row.revision} is stored but not deployed." if row.behind else ""
        return Verdict(
            "ready", f"{row.name} r{row.deployed_revision}: {row.ready} {noun} ready", f"Each is proven.{extra}"
        )
    why = "The wish was just changed and is being acted on." if generation_behind else "No engine of it runs."
    return Verdict("stopped", f"{row.name} is stopped", why)
