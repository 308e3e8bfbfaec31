"""`forebay profile …`: stores, lists, shows and exports profiles."""

import sys
from pathlib import Path
from typing import Annotated

import typer
import yaml

from controlplane.client.lookups import part
from controlplane.client.output import REFUSED, AsJson, connected, fail, say, say_json, table, write

profile_app = typer.Typer(no_args_is_help=True, help="Store, list, show and export profiles.")
MOST_BYTES = 64 * 1024


@profile_app.command("apply")
def apply(
    *,
    file: Annotated[Path, typer.Option("--file", "-f", help="YAML document; - reads standard input.")],
    as_json: AsJson = False,
) -> None:
    """Create the profile, or its next revision where the spec differs."""
    with connected(as_json=as_json) as client:
        answer = client.send_yaml("profiles/apply/", _read(file, as_json=as_json))
    if as_json:
        say_json(answer)
        return
    done = "created" if answer["created"] else "changed" if answer["changed"] else "unchanged"
    say(f"{answer['profile']} {done}, revision {answer['revision']} ({answer['hash'][:12]})")


def _read(file: Path, *, as_json: bool) -> bytes:
    try:
        return sys.stdin.buffer.read(MOST_BYTES + 1) if str(file) == "-" else file.read_bytes()
    except OSError as error:
        fail("unreadable", f"{file} cannot be read: {error.strerror}.", as_json=as_json)
        raise typer.Exit(REFUSED) from error


@profile_app.command("list")
def list_profiles(
    *,
    team: Annotated[str | None, typer.Option(help="Only this team's.")] = None,
    state: Annotated[str | None, typer.Option(help="Only in this state, for example ready or none.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the profiles."""
    params = {name: value for name, value in {"team": team, "state": state}.items() if value}
    with connected(as_json=as_json) as client:
        rows = list(client.rows("profiles/", params))
    if as_json:
        say_json(rows)
        return
    cells = [(r["name"], r["state"], r["model"], r["precision"], r["revision"], r["team"]) for r in rows]
    columns = ("profile", "state", "model", "precision", "revision", "team")
    table(columns, cells, empty="No profiles. Store one with `forebay profile apply -f FILE`.")


@profile_app.command("show")
def show(name: str, *, as_json: AsJson = False) -> None:
    """Show a profile, its newest spec and how it is deployed."""
    with connected(as_json=as_json) as client:
        answer = client.get(f"profiles/{part(name)}/")
    if as_json:
        say_json(answer)
        return
    say(f"{answer['name']} ({answer['team']}): {answer['state']}, revision {answer['revision']}, {answer['model']}")
    write(yaml.safe_dump(answer["spec"], sort_keys=False, allow_unicode=True))


@profile_app.command("export")
def export(name: str) -> None:
    """Write the profile as YAML that `forebay profile apply` reads."""
    with connected() as client:
        text = client.text(f"profiles/{part(name)}/yaml/", accept="text/yaml")
    write(text)
