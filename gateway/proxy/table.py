"""The routing table: its wire format, and the copy that this process routes by."""

from typing import Literal

import msgspec

SCHEMA = 1


class TableError(ValueError):
    """The bytes are not a routing table that this version understands."""


class TableProfile(msgspec.Struct, frozen=True, kw_only=True):
    """One profile as the gateway needs it; `replicas` lists the ready ones only."""

    profile_id: str
    team: str
    revision: int
    revision_hash: str
    model: str
    precision: str
    max_model_len: int | None
    max_concurrency: int | None
    output_cap: int | None = None
    replicas: tuple[str, ...] = ()


class TableReplica(msgspec.Struct, frozen=True, kw_only=True):
    """One engine process; `drain_deadline` is wall-clock seconds, None for no deadline."""

    profile: str
    revision: int
    url: str
    api_key: str
    state: Literal["ready", "draining"]
    drain_deadline: float | None = None


class TableKey(msgspec.Struct, frozen=True, kw_only=True):
    """One API key, filed under the SHA-256 of the whole key; `profiles` may be ("*",)."""

    id: str
    name: str
    team: str
    profiles: tuple[str, ...]
    max_concurrency: int | None = None
    expires_at: float | None = None


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that routing needs, swapped as a whole; `published_at` is wall-clock seconds."""

    schema: int
    version: int
    published_at: float
    profiles: dict[str, TableProfile]
    replicas: dict[str, TableReplica]
    keys: dict[str, TableKey]


_decoder = msgspec.json.Decoder(Table)
_encoder = msgspec.json.Encoder()


def decode_table(raw: bytes) -> Table:
    """Read a table; raises TableError for malformed bytes or another schema."""
    try:
        table = _decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise TableError(str(error)) from error
    if table.schema != SCHEMA:
        raise TableError(f"routing table schema {table.schema}, this gateway reads {SCHEMA}")
    return table


def encode_table(table: Table) -> bytes:
    """Write a table as the JSON that decode_table reads."""
    return _encoder.encode(table)


def ready_replicas(table: Table, profile: TableProfile) -> list[str]:
    """Ids of the profile's replicas that may take new requests."""
    rows = table.replicas
    return [one for one in profile.replicas if (row := rows.get(one)) is not None and row.state == "ready"]


class TableStore:
    """The table in use and how long ago a source last confirmed it (monotonic seconds)."""

    def __init__(self, *, ttl: float) -> None:
        self.ttl = ttl
        self.table: Table | None = None
        self._confirmed = 0.0

    @property
    def version(self) -> int | None:
        """Version of the table in use, None before the first one."""
        return None if self.table is None else self.table.version

    def offer(self, table: Table, *, mono: float) -> bool:
        """Use the table unless it is older than the one in use; False when it was refused.

        A lower version counts as newer only with a later `published_at`: a store that came back
        empty starts to count again, a store that came back with old data must not win.
        """
        current = self.table
        if current is not None and table.version < current.version and table.published_at <= current.published_at:
            return False
        self.table = table
        self._confirmed = mono
        return True

    def confirm(self, *, version: int, mono: float) -> bool:
        """Refresh the age because a source still says this version; False for another version."""
        if self.table is None or self.table.version != version:
            return False
        self._confirmed = mono
        return True

    def age(self, *, mono: float) -> float | None:
        """Seconds since a source last confirmed the table, None before the first one."""
        return None if self.table is None else max(0.0, mono - self._confirmed)

    def fresh(self, *, mono: float) -> Table | None:
        """The table, or None when there is none or its age is past the time to live."""
        return self.table if self.table is not None and mono - self._confirmed <= self.ttl else None
