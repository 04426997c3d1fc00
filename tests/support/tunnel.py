"""A proxy that tunnels connections."""

from __future__ import annotations

import socket
from contextlib import suppress

from support.scripted_server import LoopbackServer, read_request


class Tunnel(LoopbackServer):
    """A proxy on loopback that connects every request to one peer and records the requests."""

    def __init__(self, peer, tls=None):
        super().__init__(tls)
        self.requested = []
        self._to = ("127.0.0.1", int(peer.address.rpartition(":")[2]))

    def _converse(self, connection):
        self.requested.append(read_request(connection))
        connection.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
        with socket.create_connection(self._to) as far:
            self._open.append(far)
            there = self._start(self._pump, connection, far)
            self._pump(far, connection)
            there.join()

    @staticmethod
    def _pump(source, sink):
        with suppress(OSError):
            while data := source.recv(1 << 16):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
