"""`forebay deploy`, `drain`, `scale` and `ps`: what should run, and what runs."""

from collections.abc import Callable
from typing import Annotated, Any

import typer

from controlplane.client.api import Client
from controlplane.client.lookups import deployment_of
from controlplane.client.output import REFUSED, AsJson, connected, note, say, say_json, table
from controlplane.client.waiting import Deployment, judge_drain, judge_start, wait_for

Profile = Annotated[str, typer.Argument(help="Name of the profile.")]
Wait = Annotated[bool, typer.Option("--wait", help="Return when it is done or has failed.")]
Timeout = Annotated[float, typer.Option(min=0, help="Seconds to wait at most.")]
Judge = Callable[[Deployment], tuple[bool, str] | None]


def deploy(
    profile: Profile,
    *,
    replicas: Annotated[int | None, typer.Option(min=0, help="How many engines; as before, or 1.")] = None,
    revision: Annotated[int | None, typer.Option(min=1, help="Which revision; the newest.")] = None,
    drain_seconds: Annotated[int | None, typer.Option(min=0, help="How long a drain may take; as before.")] = None,
    wait: Wait = False,
    timeout: Timeout = 900,
    as_json: AsJson = False,
) -> None:
    """Wish for engines of a profile."""
    wishes = {"replicas": replicas, "revision": revision, "drain_seconds": drain_seconds}
    body: dict[str, Any] = {"profile": profile}
    body |= {name: value for name, value in wishes.items() if value is not None}
    with connected(as_json=as_json) as client:
        answer = client.send("POST", "deployments/", body)
        wished = f"{profile}: {answer['wanted']} wanted of revision {answer['revision']}, {answer['status']}"
        _finish(client, answer, judge_start if wait else None, wished=wished, timeout=timeout, as_json=as_json)


def scale(
    profile: Profile,
    replicas: Annotated[int, typer.Argument(min=0, help="How many engines.")],
    *,
    wait: Wait = False,
    timeout: Timeout = 900,
    as_json: AsJson = False,
) -> None:
    """Wish for another number of engines."""
    with connected(as_json=as_json) as client:
        row = deployment_of(client, profile)
        answer = client.send("PATCH", f"deployments/{row['id']}/", {"replicas": replicas})
        wished = f"{profile}: {answer['wanted']} wanted, {answer['status']}"
        _finish(client, answer, judge_start if wait else None, wished=wished, timeout=timeout, as_json=as_json)


def drain(
    profile: Profile,
    *,
    seconds: Annotated[int | None, typer.Option(min=0, help="How long requests in flight may take.")] = None,
    wait: Wait = False,
    timeout: Timeout = 900,
    as_json: AsJson = False,
) -> None:
    """Let requests in flight end, then stop every engine of the profile."""
    with connected(as_json=as_json) as client:
        row = deployment_of(client, profile)
        body = {} if seconds is None else {"drain_seconds": seconds}
        answer = client.send("POST", f"deployments/{row['id']}/drain/", body)
        wished = f"{profile}: draining, at most {answer['drain_seconds']} s"
        _finish(client, answer, judge_drain if wait else None, wished=wished, timeout=timeout, as_json=as_json)


def _finish(client: Client, answer: Any, judge: Judge | None, *, wished: str, timeout: float, as_json: bool) -> None:
    """Say what was wished or, with a judge, wait for it; a wait that ends badly is exit status 1."""
    if judge is None:
        say_json(answer) if as_json else say(wished)
        return
    outcome = wait_for(lambda: client.get(f"deployments/{answer['id']}/"), judge, tell=note, timeout_seconds=timeout)
    if as_json:
        say_json({"ok": outcome.ok, "message": outcome.message, "deployment": outcome.deployment})
    elif outcome.ok:
        say(outcome.message)
    else:
        note(outcome.message)
    if not outcome.ok:
        raise typer.Exit(REFUSED)


def ps(*, as_json: AsJson = False) -> None:
    """List deployments and their engines."""
    with connected(as_json=as_json) as client:
        rows = [client.get(f"deployments/{row['id']}/") for row in client.rows("deployments/")]
    if as_json:
        say_json(rows)
        return
    cells = [cell for row in rows for cell in _cells(row)]
    columns = ("profile", "status", "ready", "revision", "replica", "phase", "node", "why")
    table(columns, cells, empty="Nothing is deployed. Deploy a profile with `forebay deploy PROFILE`.")


def _cells(row: Deployment) -> list[tuple[Any, ...]]:
    """One line a replica; the deployment stands on the first. Without replicas, one line with the last failure."""
    head = (row["profile"], row["status"], f"{row['ready']}/{row['wanted']}")
    if not row["replicas"]:
        failure = row["last_failure"] or {}
        why = " ".join(filter(None, (failure.get("message"), failure.get("fix"))))
        return [(*head, row["revision"], None, None, None, why if row["status"] == "failed" else None)]
    lines = []
    for place, replica in enumerate(row["replicas"]):
        silent = " (node unreachable)" if replica["unreachable"] else ""
        why = " ".join(filter(None, (replica["message"], replica["fix"])))
        lines.append(
            (
                *(head if place == 0 else ("", "", "")),
                replica["revision"],
                replica["id"],
                f"{replica['phase']}{silent}",
                replica["node"],
                None if replica["phase"] == "ready" else why,
            )
        )
    return lines
