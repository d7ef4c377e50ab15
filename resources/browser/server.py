"""The browser on a port of its own."""

import socket
from collections.abc import Callable

import uvicorn

from storage import InvalidRequest

from ..dagster_home import code_location_name
from ..session import Session
from .app import browser_app


def serve(session: Session, host: str, port: int, dagster_url: str, say: Callable[[str], None]) -> None:
    """Answer until the process is told to stop; `say` is told the address once it is there. Raises InvalidRequest for an
    address that cannot be had.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind((host, port))
        except OSError as error:
            raise InvalidRequest(
                f"{host}:{port} cannot be had: {error.strerror}. Choose another --host or --port."
            ) from None
        app = browser_app(
            session, dagster_url, session.settings.browser_read_only, location=code_location_name(), hosts=[host]
        )
        shown = f"[{host}]" if ":" in host else host
        say(f"http://{shown}:{port}/")
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
        server.run(sockets=[bound])
