"""Hosts with a network and a clock of their own, on this machine.

A host is a network namespace, which a pair of virtual interfaces joins to this machine. It exists while its
first process does, and that ends with this process at the latest, so nothing is left behind.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.harness.waiting import wait_until
from support.process_clock import shifted_clock

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PROGRAMS = ("ip", "unshare", "nsenter", "cc")

_OWN_NETWORK = Path("/proc/self/ns/net")
_CONNECTING = "02"
"""The state in `/proc/net/tcp` of a connection that has not been accepted yet."""


class HostsUnavailable(RuntimeError):
    """This machine cannot have hosts."""


@dataclass(frozen=True)
class Host:
    """A host, which reaches this machine and nothing else.

    Attributes:
        server: This machine's address for the host.
        interface: This machine's end of the link.
        environment: The environment variables that give a process the host's clock.
    """

    server: str
    interface: str
    environment: Mapping[str, str]
    _first: subprocess.Popen[bytes]

    def command(self, *command: str | Path) -> list[str]:
        """Return a command that executes another one on the host."""
        return ["nsenter", f"--net=/proc/{self._first.pid}/ns/net", *map(str, command)]

    def cut_off(self) -> None:
        """Take the link down. What is sent is lost, so that connections hang."""
        _run("ip", "link", "set", self.interface, "down")

    def reconnect(self) -> None:
        _run("ip", "link", "set", self.interface, "up")

    @property
    def hangs(self) -> bool:
        """Whether a process of the host waits for this machine to accept a connection, or to confirm data."""
        _, *connections = Path(f"/proc/{self._first.pid}/net/tcp").read_text().splitlines()
        for _, _, remote, state, queues, *_ in map(str.split, connections):
            address = int(remote.partition(":")[0], 16).to_bytes(4, sys.byteorder)
            unconfirmed = int(queues.partition(":")[0], 16)
            if str(IPv4Address(address)) == self.server and (state == _CONNECTING or unconfirmed):
                return True
        return False


@contextmanager
def hosts_with_clocks(seconds_ahead: Mapping[str, int], folder: Path) -> Iterator[dict[str, Host]]:
    """Set up hosts until the end of the block.

    Args:
        seconds_ahead: How far the clock of each host is ahead of this machine's, by the name of the host.
        folder: A folder for the libraries that shift clocks.

    Yields:
        The hosts by name. They reach this machine at the same address.

    Raises:
        HostsUnavailable: This machine lacks a program, or the rights of root.
    """
    if missing := [program for program in PROGRAMS if shutil.which(program) is None]:
        raise HostsUnavailable(f"hosts need {' and '.join(missing)} on the PATH")
    with ExitStack() as stack:
        firsts = {name: stack.enter_context(_first_process()) for name in seconds_ahead}
        network = _claim_network(next(iter(firsts.values())))
        hosts = {}
        for number, (name, first) in enumerate(firsts.items()):
            clock = shifted_clock(seconds_ahead[name], folder / f"{name}.so")
            hosts[name] = _joined(network, number, first, clock)
        yield hosts


@contextmanager
def _first_process() -> Iterator[subprocess.Popen[bytes]]:
    """Run a process in a network namespace of its own, which ends when its input does."""
    process = subprocess.Popen(
        ["unshare", "--net", "cat"], stdin=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    network = Path(f"/proc/{process.pid}/ns/net")
    try:
        wait_until(lambda: process.poll() is not None or network.readlink() != _OWN_NETWORK.readlink())
        if process.returncode is not None:
            raise HostsUnavailable(process.communicate()[1].decode().strip())
        yield process
    finally:
        process.communicate()


def _claim_network(first: subprocess.Popen[bytes]) -> int:
    """Create the first host's link under a number that no link of this machine has yet, and return that."""
    for number in range(256):
        if _create_link(number, 0, first).returncode == 0:
            return number
    raise HostsUnavailable(_create_link(0, 0, first).stderr.strip())


def _create_link(
    network: int, number: int, first: subprocess.Popen[bytes]
) -> subprocess.CompletedProcess[str]:
    peer = ("peer", "name", "eth0", "netns", str(first.pid))
    command = ["ip", "link", "add", _interface(network, number), "type", "veth", *peer]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _interface(network: int, number: int) -> str:
    return f"host{network}.{number}"


def _joined(network: int, number: int, first: subprocess.Popen[bytes], environment: dict[str, str]) -> Host:
    """Join a host to this machine, over the addresses that are reserved for tests of networks (RFC 2544)."""
    server, address = f"198.18.{network}.1", f"198.18.{network}.{number + 2}"
    host = Host(server, _interface(network, number), environment, first)
    if number:
        _create_link(network, number, first).check_returncode()
    _run("ip", "address", "add", server, "peer", address, "dev", host.interface)
    _run("ip", "link", "set", host.interface, "up")
    _run(*host.command("ip", "link", "set", "lo", "up"))
    _run(*host.command("ip", "address", "add", address, "peer", server, "dev", "eth0"))
    _run(*host.command("ip", "link", "set", "eth0", "up"))
    # Otherwise, connections would fail a few seconds after the link went down.
    hardware = Path("/sys/class/net", host.interface, "address").read_text().strip()
    neighbor = (server, "lladdr", hardware, "dev", "eth0", "nud", "permanent")
    _run(*host.command("ip", "neighbor", "add", *neighbor))
    return host


def _run(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stderr}"
