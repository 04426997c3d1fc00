"""The private names of botocore and urllib3 that direct calls use; no other module uses one.

Any release may rename them. All are resolved when a client is made, and none when this module is loaded.
Where one is missing or takes other arguments, `SdkInternalMissing` names it, and the SDK makes the calls by
itself (`client`). A name that keeps its place and changes its meaning is not found: hence the upper bounds in
pyproject.toml.
"""

from __future__ import annotations

import logging
import threading
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import botocore

if TYPE_CHECKING:
    from collections.abc import Callable

_log = logging.getLogger(__name__)

_warned = threading.Event()


class SdkInternalMissing(Exception):
    """botocore or urllib3 has no such private name, or it takes other arguments."""


def warn_that_the_sdk_calls(missing: str) -> None:
    """Log why direct calls are not made, once in a process."""
    if _warned.is_set():
        return
    _warned.set()
    _log.warning(
        "%s, which direct calls to Kinesis need: the AWS SDK (botocore %s) makes all calls by itself, for "
        "several times the CPU. Install the versions of botocore and urllib3 that kinesis-assets requires",
        missing,
        botocore.__version__,
    )


def _private(owner: Any, name: str) -> Any:
    try:
        return getattr(owner, name)
    except AttributeError:
        label = getattr(owner, "__name__", None) or type(owner).__name__
        raise SdkInternalMissing(f"{label} has no {name}") from None


def _of_module(module: str, name: str) -> Any:
    try:
        return _private(import_module(module), name)
    except ImportError:
        raise SdkInternalMissing(f"there is no module {module}") from None


def parser_error() -> type[Exception]:
    """What the SDK raises for an answer that it cannot parse; where it does not name that, a ValueError."""
    try:
        error: type[Exception] = _of_module("botocore.parsers", "ResponseParserError")
    except SdkInternalMissing:
        return ValueError
    return error


def data_endpoint(client: Any, stream_arn: str | None) -> str:
    """Where the SDK sends the calls that read a stream: to the endpoint of the account in its ARN.

    Without an ARN it is the region's. A custom endpoint is used as it is for both.
    Source: botocore's endpoint rules of Kinesis, endpoint-rule-set-1, which know StreamARN.
    """
    resolver = getattr(client, "_ruleset_resolver", None)
    if stream_arn is None or resolver is None:
        return str(client.meta.endpoint_url)  # the region's endpoint answers calls by ARN too
    model = client.meta.service_model.operation_model("GetRecords")
    context = {"client_config": client.meta.config}
    return str(resolver.construct_endpoint(model, {"StreamARN": stream_arn}, context).url)


class Signing:
    """How a client signs its requests and parses error responses.

    Args:
        client: Of botocore.

    Raises:
        SdkInternalMissing: The client has no such parts.

    Attributes:
        signer: The client's own.
        request: Makes a request that can be signed, of a method, a URL, headers and a body.
        parse_refusal: Makes a refusal of an answer and the operation's output shape.
    """

    def __init__(self, client: Any) -> None:
        self.signer = _private(client, "_request_signer")
        _private(self.signer, "sign")
        _private(self.signer, "_credentials")
        self.request = _request_class()
        self.parse_refusal: Callable[[dict[str, Any], Any], dict[str, Any]] = _private(
            _of_module("botocore.parsers", "JSONParser")(), "parse"
        )

    def needs_credentials(self) -> bool:
        """Whether the next signature gets new credentials first."""
        needed = getattr(_private(self.signer, "_credentials"), "refresh_needed", None)
        return needed is not None and bool(needed())


def _request_class() -> Any:
    base: Any = _of_module("botocore.awsrequest", "AWSRequest")

    class Request(base):  # type: ignore[misc]  # botocore has no types
        """The SDK's request, without preparing all of it again each time its body is read."""

        @property
        def body(self) -> bytes:
            return self.data  # type: ignore[no-any-return]

    probe = Request("POST", "http://localhost/", {"Name": "value"}, b"body")
    _private(probe, "data")
    if list(_private(probe, "headers").items()) != [("Name", "value")]:
        raise SdkInternalMissing("AWSRequest has other headers")
    return Request


class ConnectionPool:
    """The connections of a botocore session to a URL, through proxies and TLS as the session is set.

    Args:
        session: A botocore client's own, of HTTP.
        url: Where to.

    Raises:
        SdkInternalMissing: They cannot be reached.
        ValueError: The URL, or that of a proxy, is invalid.

    Attributes:
        pool: The pool of urllib3.
        take: Gives a connection, open or not.
        put_back: Takes it back, open or not.
        prepare_proxy: Opens a connection through a tunnel.
        tunnels: Whether connections are such.
        proxy_url: Of the proxy; None without one.
        shown_proxy_url: The same without its password.
        certificate_error: What a certificate of another host raises, besides errors of `ssl`.
    """

    def __init__(self, session: Any, url: str) -> None:
        needs_tunnel = _of_module("urllib3.util.proxy", "connection_requires_http_tunnel")
        self.certificate_error: type[Exception] = _of_module(
            "urllib3.util.ssl_match_hostname", "CertificateError"
        )
        proxies = _private(session, "_proxy_config")
        manager_of = _private(session, "_get_connection_manager")
        set_up = _private(session, "_setup_ssl_cert")
        mask = _of_module("botocore.httpsession", "mask_proxy_url")
        self.proxy_url: str | None = _private(proxies, "proxy_url_for")(url)
        try:
            self.pool = manager_of(url, self.proxy_url).connection_from_url(url)
            set_up(self.pool, url, _private(session, "_verify"))
            proxy, proxy_config = _private(self.pool, "proxy"), _private(self.pool, "proxy_config")
            self.tunnels = bool(needs_tunnel(proxy, proxy_config, urlsplit(url).scheme))
            self.shown_proxy_url = self.proxy_url and mask(self.proxy_url)
            self.take: Callable[[], Any] = _private(self.pool, "_get_conn")
            self.put_back: Callable[[Any], None] = _private(self.pool, "_put_conn")
            self.prepare_proxy: Callable[[Any], None] = _private(self.pool, "_prepare_proxy")
            self._see_what_is_used()
        except (TypeError, AttributeError) as error:
            raise SdkInternalMissing(f"a private function of botocore or urllib3 differs ({error})") from None
        except ValueError as error:
            of = "the environment's proxy for it: " if self.proxy_url else ""
            raise ValueError(f"{of}{error}") from None

    def _see_what_is_used(self) -> None:
        """See that the pool and its connections have what calls use of them; none is opened."""
        for name in ("proxy_headers", "timeout"):
            _private(self.pool, name)
        connection = self.take()
        try:
            for name in ("is_closed", "has_connected_to_proxy", "proxy", "sock", "timeout", "connect"):
                _private(connection, name)
        finally:
            self.put_back(connection)


def connections_of(client: Any, url: str) -> ConnectionPool:
    """The connections of a botocore client to a URL; raises what `ConnectionPool` does."""
    return ConnectionPool(_private(_private(client, "_endpoint"), "http_session"), url)
