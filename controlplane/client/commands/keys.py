"""`forebay keys …`: who may send requests."""

from typing import Annotated, Any

import typer

from controlplane.client.lookups import part
from controlplane.client.output import AsJson, connected, note, say, say_json, table

keys_app = typer.Typer(no_args_is_help=True, help="Make, list and revoke keys of the gateway.")


@keys_app.command("create")
def create(
    name: Annotated[str, typer.Argument(help="What the key is for.")],
    *,
    profile: Annotated[list[str] | None, typer.Option(help="A profile it may use; can be repeated; all.")] = None,
    team: Annotated[str | None, typer.Option(help="Which team's.")] = None,
    max_concurrency: Annotated[int | None, typer.Option(min=1, help="Requests at once at most.")] = None,
    expires_at: Annotated[str | None, typer.Option(help="When it ends, for example 2030-01-31T00:00:00Z.")] = None,
    as_json: AsJson = False,
) -> None:
    """Make a key. It is shown this once."""
    body: dict[str, Any] = {"name": name, "profiles": profile or ["*"]}
    optional = {"team": team, "max_concurrency": max_concurrency, "expires_at": expires_at}
    body |= {field: value for field, value in optional.items() if value is not None}
    with connected(as_json=as_json) as client:
        answer = client.send("POST", "keys/", body)
    if as_json:
        say_json(answer)
        return
    say(answer["key"])
    note(answer["message"])


@keys_app.command("list")
def list_keys(*, as_json: AsJson = False) -> None:
    """List the keys, revoked ones included, without their secrets."""
    with connected(as_json=as_json) as client:
        rows = list(client.rows("keys/"))
    if as_json:
        say_json(rows)
        return
    cells = [
        (
            row["id"],
            row["name"],
            row["prefix"],
            ", ".join(row["profiles"]),
            "revoked" if row["revoked_at"] else row["expires_at"] or "no end",
        )
        for row in rows
    ]
    table(("id", "name", "prefix", "profiles", "until"), cells, empty="No keys. Make one with `forebay keys create`.")


@keys_app.command("revoke")
def revoke(key_id: Annotated[str, typer.Argument(help="The key's id, as the list shows it.")]) -> None:
    """End a key: gateways refuse it within moments."""
    with connected() as client:
        client.send("DELETE", f"keys/{part(key_id)}/")
    say("Revoked.")
