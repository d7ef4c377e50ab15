"""Addresses that servers are to answer at."""

import socket

from storage import InvalidRequest


def bound(host: str, port: int) -> socket.socket:
    """A socket that has the address, to be closed or served from. Raises InvalidRequest if it cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound_socket = socket.socket(family)
    bound_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound_socket.bind((host, port))
    except OSError as error:
        bound_socket.close()
        raise InvalidRequest(
            f"{host}:{port} cannot be had: {error.strerror}. Choose another --host or --port."
        ) from None
    return bound_socket
