"""The `forebay` command: starts and inspects this machine, and is a client of a running Forebay."""

from pathlib import Path
from typing import Annotated

import typer

from controlplane import doctor as doctor_module
from controlplane import status as status_module
from controlplane import up as up_module
from controlplane.client.commands import deployments, logs, nodes
from controlplane.client.commands import keys as keys_commands
from controlplane.client.commands import login as login_command
from controlplane.client.commands import profiles as profile_commands
from controlplane.local import setup as setup_module
from controlplane.local.options import UpOptions, resolve

app = typer.Typer(no_args_is_help=True, add_completion=False)

DataDir = Annotated[Path | None, typer.Option(help="Where everything is kept; FOREBAY_DATA_DIR, else .forebay here.")]
Json = Annotated[bool, typer.Option("--json", help="JSON instead of text.")]
NoDemo = Annotated[bool, typer.Option("--no-demo", help="No demo model and no demo profiles.")]
EnginePython = Annotated[
    Path | None, typer.Option(help="Adopt the vLLM of this interpreter instead of installing one.")
]


@app.command()
def up(
    *,
    data_dir: DataDir = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on; 127.0.0.1.")] = None,
    port: Annotated[int | None, typer.Option(help="Port of the pages and the API; 8300.")] = None,
    gateway_port: Annotated[int | None, typer.Option(help="Port of the gateway; 8400.")] = None,
    no_demo: NoDemo = False,
    no_engine: Annotated[bool, typer.Option("--no-engine", help="Install no engine; implies --no-demo.")] = False,
    leave_engines: Annotated[bool, typer.Option("--leave-engines", help="Leave engines running at the end.")] = False,
    engine_python: EnginePython = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show the output of every process.")] = False,
) -> None:
    """Start everything on this machine and keep it running until Ctrl-C."""
    options = UpOptions(
        data_dir=data_dir,
        host=host,
        port=port,
        gateway_port=gateway_port,
        demo=not no_demo,
        engine=not no_engine,
        leave_engines=leave_engines,
        engine_python=engine_python,
        verbose=verbose,
    )
    raise typer.Exit(up_module.run(options))


@app.command()
def down(*, data_dir: DataDir = None) -> None:
    """Stop what `forebay up` runs; engines are drained first."""
    raise typer.Exit(status_module.down(data_dir=data_dir))


@app.command()
def status(*, data_dir: DataDir = None, as_json: Json = False) -> None:
    """Show every process and how far the set-up is."""
    raise typer.Exit(status_module.show(data_dir=data_dir, as_json=as_json))


@app.command()
def doctor(*, data_dir: DataDir = None, as_json: Json = False) -> None:
    """Say what is wrong with this machine, and how to mend it."""
    raise typer.Exit(doctor_module.run(data_dir=data_dir, as_json=as_json))


@app.command()
def setup(*, data_dir: DataDir = None, no_demo: NoDemo = False, engine_python: EnginePython = None) -> None:
    """Install the engine and make the demo model, if they are missing."""
    options = UpOptions(data_dir=data_dir, demo=not no_demo, engine_python=engine_python)
    raise typer.Exit(setup_module.run_here(resolve(options)))


def _django_command(name: str) -> None:
    import os

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings.prod")
    import django
    from django.core.management import call_command

    django.setup()
    call_command(name)


@app.command()
def agent() -> None:
    """Run this node's agent in the foreground."""
    _django_command("run_agent")


@app.command()
def scheduler() -> None:
    """Run the scheduler in the foreground."""
    _django_command("run_scheduler")


@app.command()
def monitor() -> None:
    """Run the monitor in the foreground."""
    _django_command("run_monitor")


app.command()(login_command.login)
app.add_typer(profile_commands.profile_app, name="profile")
app.command()(deployments.deploy)
app.command()(deployments.drain)
app.command()(deployments.scale)
app.command()(deployments.ps)
app.command()(logs.logs)
app.add_typer(keys_commands.keys_app, name="keys")
app.command()(nodes.nodes)


def main() -> None:
    """The console script."""
    app()


if __name__ == "__main__":
    main()
