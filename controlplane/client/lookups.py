"""From the names that a person types to the objects of the API."""

from typing import Any
from urllib.parse import quote
from uuid import UUID

from controlplane.client.api import Client, RefusedError


def part(text: str) -> str:
    """``text`` as one part of an address, whatever signs it holds."""
    return quote(text, safe="")


def as_uuid(text: str) -> UUID | None:
    """``text`` as an id, or None where it is a name."""
    try:
        return UUID(text)
    except ValueError:
        return None


def deployment_of(client: Client, profile: str) -> Any:
    """The deployment of the profile, with its replicas. Raises RefusedError where there is none."""
    rows = client.get("deployments/", {"profile": profile})["results"]
    if not rows:
        client.get(f"profiles/{part(profile)}/")
        raise RefusedError("not_deployed", f"{profile} is not deployed; deploy it with `forebay deploy {profile}`.")
    return client.get(f"deployments/{rows[0]['id']}/")


def replicas_of(client: Client, name: str) -> list[Any]:
    """The replica with this id or, for a profile's name, its open replicas; with none open, the last that failed."""
    if as_uuid(name):
        return [client.get(f"replicas/{name}/")]
    deployment = deployment_of(client, name)
    if deployment["replicas"]:
        return list(deployment["replicas"])
    if deployment["last_failure"]:
        return [deployment["last_failure"]]
    raise RefusedError("no_replica", f"{name} has no replica whose log could be shown.")
