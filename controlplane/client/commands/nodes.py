"""`forebay nodes`: where engines run."""

from typing import Any

from controlplane.client.output import AsJson, connected, say_json, table

GIB = 2**30


def nodes(*, as_json: AsJson = False) -> None:
    """List the nodes with their devices and engines."""
    with connected(as_json=as_json) as client:
        rows = list(client.rows("nodes/"))
    if as_json:
        say_json(rows)
        return
    cells = [
        (
            row["name"],
            row["kind"],
            _state(row),
            row["cores"],
            _gib(row["memory_total_bytes"]),
            len(row["gpus"]),
            ", ".join(f"{engine['name']} {engine['version']}" for engine in row["engines"]),
        )
        for row in rows
    ]
    columns = ("node", "kind", "state", "cores", "memory", "GPUs", "engines")
    table(columns, cells, empty="No nodes. A node joins when its agent starts (`forebay agent`).")


def _state(row: Any) -> str:
    if not row["reachable"]:
        return "unreachable"
    if row["stopping"]:
        return "stopping"
    return "cordoned" if row["cordoned"] else "reachable"


def _gib(value: int | None) -> str | None:
    return None if value is None else f"{value / GIB:.1f} GiB"
