"""`forebay login`: trades a name and a password for the API token, and keeps it."""

from typing import Annotated

import typer

from controlplane.client.config import Login, environment, keep_login, read_login
from controlplane.client.output import REFUSED, AsJson, connected, note, say, say_json


def login(
    *,
    url: Annotated[str | None, typer.Option(help="Address of the pages; FOREBAY_URL, else this host.")] = None,
    username: Annotated[str, typer.Option(prompt=True, help="Your user name.")],
    password: Annotated[
        str, typer.Option(prompt=True, hide_input=True, envvar="FOREBAY_PASSWORD", help="Better typed than given here.")
    ],
    rotate: Annotated[bool, typer.Option("--rotate", help="End the current token and make another.")] = False,
    as_json: AsJson = False,
) -> None:
    """Get the API token for this user and keep it in a file that only they can read."""
    address = (url or read_login(environment()).url).rstrip("/")
    with connected(as_json=as_json, login=Login(url=address, token=None)) as client:
        answer = client.send("POST", "tokens/", {"username": username, "password": password, "rotate": rotate})
    try:
        path = keep_login(environment(), Login(url=address, token=answer["token"]))
    except OSError as error:
        note(f"The token cannot be kept: {error}. Set XDG_CONFIG_HOME to a folder that you can write.")
        raise typer.Exit(REFUSED) from error
    if as_json:
        say_json({"url": address, "username": answer["username"], "kept_in": str(path)})
    else:
        say(f"Logged in to {address} as {answer['username']}. The token is kept in {path}.")
