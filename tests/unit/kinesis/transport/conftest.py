"""Clients that share nothing, without a proxy, and a certificate authority."""

from __future__ import annotations

import socket
import ssl
from contextlib import ExitStack

import pytest
import trustme


@pytest.fixture
def sdk_clients():
    """Share no client of the SDK."""


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    """Remove the proxies of the environment."""
    for name in ("http_proxy", "https_proxy", "no_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture(scope="module")
def authority():
    """A certificate authority for servers on loopback."""
    return trustme.CA()


@pytest.fixture
def tls(authority):
    """The TLS context of such a server."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return context


@pytest.fixture
def trusted(authority, monkeypatch, tmp_path):
    """Make the SDK trust that authority."""
    authority.cert_pem.write_to_path(tmp_path / "authority.pem")
    monkeypatch.setenv("AWS_CA_BUNDLE", str(tmp_path / "authority.pem"))


@pytest.fixture
def pair():
    """Open pairs of connected non-blocking sockets."""
    with ExitStack() as stack:

        def opened():
            ends = socket.socketpair()
            for end in ends:
                end.setblocking(False)
                stack.enter_context(end)
            return ends

        yield opened
