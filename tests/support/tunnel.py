"""A proxy that tunnels connections."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

from support.scripted_server import read_request


class Tunnel:
    """A proxy on loopback that connects every request to one peer and records the requests."""

    def __init__(self, peer, tls=None):
        self.requested = []
        self._tls = tls
        self._to = ("127.0.0.1", int(peer.address.rpartition(":")[2]))
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listening.getsockname()[1]}"
        self._open = []
        self._threads = [threading.Thread(target=self._serve)]

    def __enter__(self):
        self._threads[0].start()
        return self

    def __exit__(self, *_):
        for end in (self._listening, *self._open):
            with suppress(OSError):  # already closed
                end.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for end in (self._listening, *self._open):
            end.close()

    def _serve(self):
        with suppress(OSError):  # the listening socket was closed
            while True:
                near, _ = self._listening.accept()
                if self._tls:
                    near = self._tls.wrap_socket(near, server_side=True)
                self._open.append(near)
                self.requested.append(read_request(near))
                near.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
                far = socket.create_connection(self._to)
                self._open.append(far)
                for ends in ((near, far), (far, near)):
                    self._threads.append(threading.Thread(target=self._pump, args=ends))
                    self._threads[-1].start()

    @staticmethod
    def _pump(source, sink):
        with suppress(OSError):
            while data := source.recv(1 << 16):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
