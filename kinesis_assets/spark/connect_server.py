"""A Spark Connect server, and the token that authenticates its clients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable

_LOCAL_HOSTS = ("localhost", "127.0.0.1")


@dataclass(frozen=True, slots=True)
class ConnectServer:
    """A server.

    Attributes:
        url: Its URL, as in SPARK_REMOTE.
        token: Returns the current token, which each call carries in the header of the proxies of AWS; None if
            the server needs none, or the URL contains it.
    """

    url: str
    token: Callable[[], str] | None = None

    def __repr__(self) -> str:
        return f"ConnectServer({self.address!r})"  # a traceback or a log may show it

    @property
    def is_on_this_machine(self) -> bool:
        """Whether the server is on this machine."""
        return urlsplit(self.url).hostname in _LOCAL_HOSTS

    @property
    def address(self) -> str:
        """The URL without its parameters, one of which may be a token."""
        return self.url.split(";", maxsplit=1)[0].rstrip("/")
