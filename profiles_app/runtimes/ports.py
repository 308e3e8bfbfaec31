"""Looks at TCP ports of this host before an engine is given one."""

import socket

import psutil

from profiles_app.runtimes.base import PortHolder


def port_is_free(port: int, *, host: str = "127.0.0.1") -> bool:
    """Whether a new engine could bind the port now.

    Binds without SO_REUSEADDR: with it, Linux lets two sockets share a port that nobody listens on yet, and an engine
    binds long before it listens. A port with connections in TIME_WAIT therefore counts as taken, too.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def port_holder(port: int) -> PortHolder | None:
    """The process that listens on the port, as far as this user may see; one that has only bound it isn't found."""
    try:
        connections = psutil.net_connections(kind="tcp")
    except psutil.Error:
        return None
    for connection in connections:
        # laddr is (address, port); psutil's stubs also allow the empty tuple of an unbound socket.
        bound: tuple[object, ...] = tuple(connection.laddr)
        if connection.status == psutil.CONN_LISTEN and port in bound[1:2] and connection.pid is not None:
            return PortHolder(connection.pid, _name(connection.pid))
    return None


def _name(pid: int) -> str | None:
    try:
        return psutil.Process(pid).name()
    except psutil.Error:
        return None
