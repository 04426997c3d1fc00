"""The sockets on which a process and its descendants listen, as /proc shows them."""

from __future__ import annotations

import socket
import struct
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

_LISTENS = "0A"


def process_tree(pid: int) -> set[int]:
    """Return a process and all its descendants."""
    parents = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(process.name)] = int((process / "stat").read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue  # the process has ended
    tree = {pid}
    while found := {child for child, parent in parents.items() if parent in tree} - tree:
        tree |= found
    return tree


def listening(pid: int) -> set[tuple[IPv4Address | IPv6Address, int]]:
    """Return the addresses and ports on which a process or a descendant accepts TCP connections."""
    inodes = set()
    for process in process_tree(pid):
        for descriptor in Path(f"/proc/{process}/fd").glob("*"):
            try:
                inodes.add(str(descriptor.readlink()))
            except FileNotFoundError:
                continue  # the socket was closed
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == _LISTENS and f"socket:[{fields[9]}]" in inodes:
                found.add(_address(fields[1]))
    return found


def _address(field: str) -> tuple[IPv4Address | IPv6Address, int]:
    """Parse an address of /proc, which consists of 32-bit words in the machine's byte order."""
    words, _, port = field.partition(":")
    packed = b"".join(struct.pack("=I", int(words[at : at + 8], 16)) for at in range(0, len(words), 8))
    address = ip_address(packed)
    return getattr(address, "ipv4_mapped", None) or address, int(port, 16)


def outside(pid: int) -> set[str]:
    """Return the sockets of a process and its descendants that other machines can reach."""
    sockets = listening(pid)
    assert sockets, "no socket was found"
    return {f"{address}:{port}" for address, port in sockets if not address.is_loopback}


def answer_without_a_secret(port: int) -> bytes:
    """Return the response of a Spark RPC server to a client that has not authenticated."""
    body = b"any"
    message = struct.pack(">bqi", 3, 1, len(body)) + body  # Spark's RpcRequest: type, id, bytes of the body
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(struct.pack(">q", 8 + len(message)) + message)
        answers = connection.makefile("rb")
        (length,) = struct.unpack(">q", answers.read(8))
        return answers.read(length - 8)


def assert_authenticates(port: int) -> None:
    assert b"Expected SaslMessage, received something else" in answer_without_a_secret(port)
