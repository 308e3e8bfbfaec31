"""What the commands write: tables or JSON on stdout, refusals and progress on stderr, and the exit status."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from controlplane.client.api import Client, RefusedError, UnreachableError
from controlplane.client.config import Login, environment, read_login

REFUSED = 1
UNREACHABLE = 3
WHAT_TO_DO = {
    "not_authenticated": "Log in with `forebay login`, or set FOREBAY_TOKEN.",
    "authentication_failed": "Log in again with `forebay login`, or correct FOREBAY_TOKEN.",
}

AsJson = Annotated[bool, typer.Option("--json", help="JSON instead of text.")]


def say(text: str) -> None:
    """A plain line on stdout, never wrapped: it may be read by a program."""
    Console(soft_wrap=True, highlight=False).print(Text(text))


def write(text: str) -> None:
    """Text on stdout as it came, but for escapes: a log must not steer the terminal."""
    Console(soft_wrap=True, highlight=False).print(Text(text.replace("\x1b", "␛")), end="")


def note(text: str) -> None:
    """A line for the person at the terminal, on stderr."""
    Console(stderr=True, soft_wrap=True, highlight=False).print(Text(text))


def say_json(data: Any, *, indent: int | None = 2) -> None:
    """Data on stdout as JSON; without ``indent``, on one line."""
    say(json.dumps(data, indent=indent, ensure_ascii=False))


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]], *, empty: str) -> None:
    """Rows under their columns; ``empty`` is said where there are none. None is shown as a dash."""
    if not rows:
        say(empty)
        return
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        shown.add_column(column, overflow="fold")
    for row in rows:
        shown.add_row(*(Text("-" if value is None or value == "" else str(value)) for value in row))
    Console(highlight=False).print(shown)


@contextmanager
def connected(*, as_json: bool = False, login: Login | None = None) -> Iterator[Client]:
    """A client for ``login`` (default: the kept one). What goes wrong is said and becomes the exit status."""
    try:
        with Client(login or read_login(environment())) as client:
            yield client
    except RefusedError as error:
        _refused(error, as_json=as_json)
        raise typer.Exit(REFUSED) from error
    except UnreachableError as error:
        fail("unreachable", f"{error} Is it running (`forebay status`), and is FOREBAY_URL right?", as_json=as_json)
        raise typer.Exit(UNREACHABLE) from error


def fail(code: str, message: str, *, as_json: bool) -> None:
    """Say what went wrong, on stderr."""
    note(json.dumps({"error": {"code": code, "message": message}}) if as_json else message)


def _refused(error: RefusedError, *, as_json: bool) -> None:
    advice = WHAT_TO_DO.get(error.code, "")
    if as_json:
        details = [{"field": field, "message": message} for field, message in error.details]
        body = {"code": error.code, "message": error.message, "details": details, "advice": advice or None}
        note(json.dumps({"error": body}, ensure_ascii=False))
        return
    note(error.message)
    for field, message in error.details:
        note(f"  {field}: {message}" if field else f"  {message}")
    if advice:
        note(advice)
