"""A gate before a port, by which a test stops what a broker sends to itself."""

import contextlib
import socket
import socketserver
import threading
from typing import cast


class Gate:
    """Passes connections on to `target`, a port of this machine, while it is open."""

    def __init__(self, target: int) -> None:
        self._server = _Server(("127.0.0.1", 0), _Passing)
        self._server.target = target
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def shut(self) -> None:
        """Whatever comes is turned away, and whoever is inside put out."""
        self._server.is_open = False
        for each in self._server.inside:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def open(self) -> None:
        self._server.is_open = True

    def close(self) -> None:
        """Give the port back."""
        self.shut()
        self._server.shutdown()
        self._server.server_close()


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], handler: "type[_Passing]") -> None:
        super().__init__(address, handler)
        self.target = 0
        self.is_open = True
        self.inside: list[socket.socket] = []


class _Passing(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        gate = cast(_Server, self.server)
        if not gate.is_open:
            return
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", gate.target)) as other:
            gate.inside += [self.request, other]
            back = threading.Thread(target=_copy, args=(other, self.request), daemon=True)
            back.start()
            _copy(self.request, other)
            back.join()


def _copy(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while part := source.recv(65536):
            sink.sendall(part)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)
