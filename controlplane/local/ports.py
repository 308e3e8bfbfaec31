"""Says whether a port can be listened on, and if not, who has it."""

import socket

import psutil


def free(host: str, port: int) -> bool:
    """Whether we could listen there now."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
        return True


def owner(port: int) -> str:
    """Who listens on a port, as words; `another process` where the system does not tell."""
    try:
        for connection in psutil.net_connections("inet"):
            if connection.laddr and connection.laddr.port == port and connection.status == psutil.CONN_LISTEN:
                return (
                    f"{psutil.Process(connection.pid).name()} (process {connection.pid})"
                    if connection.pid
                    else "another user"
                )
    except psutil.Error:
        return "another process"
    return "another process"
