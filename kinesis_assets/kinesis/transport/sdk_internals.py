"""The private names of botocore and urllib3 that direct calls use. No other module uses any.

Any release may rename them. They are resolved when a client is created, not when this module is imported. If
one is missing or takes other arguments, `SdkInternalMissing` names it, and the SDK makes the calls instead
(`client`). A name whose meaning changes cannot be detected, hence the upper bounds in pyproject.toml.
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
    """A private name of botocore or urllib3 is missing, or takes other arguments."""


def warn_about_missing_internal(missing: str) -> None:
    """Log that the SDK makes all calls, because a private name is missing, once per process."""
    if _warned.is_set():
        return
    _warned.set()
    _log.warning(
        "%s, which direct calls to Kinesis need: the AWS SDK (botocore %s) makes all calls instead, "
        "which costs several times the CPU. Install the versions of botocore and urllib3 that kinesis-assets "
        "requires",
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
    """Return the SDK's error for an invalid response; ValueError if the SDK does not have it."""
    try:
        error: type[Exception] = _of_module("botocore.parsers", "ResponseParserError")
    except SdkInternalMissing:
        return ValueError
    return error


def data_endpoint(client: Any, stream_arn: str | None) -> str:
    """Return the URL to which the SDK sends the calls that read a stream.

    With an ARN, it is the endpoint of the account in the ARN; without one, the endpoint of the region. A
    custom endpoint is used unchanged.

    Source: botocore's endpoint rules for Kinesis, endpoint-rule-set-1, parameter StreamARN.
    """
    resolver = getattr(client, "_ruleset_resolver", None)
    if stream_arn is None or resolver is None:
        return str(client.meta.endpoint_url)  # the region's endpoint accepts calls by ARN too
    model = client.meta.service_model.operation_model("GetRecords")
    context = {"client_config": client.meta.config}
    return str(resolver.construct_endpoint(model, {"StreamARN": stream_arn}, context).url)


class Signing:
    """How a botocore client signs its requests and parses error responses.

    Raises:
        SdkInternalMissing: A private name is missing.

    Attributes:
        request: Creates a request that can be signed, from a method, a URL, headers and a body.
        parse_error: Creates an error response from a response and the operation's output shape.
    """

    def __init__(self, client: Any) -> None:
        self.signer = _private(client, "_request_signer")
        _private(self.signer, "sign")
        _private(self.signer, "_credentials")
        self.request = _request_class()
        self.parse_error: Callable[[dict[str, Any], Any], dict[str, Any]] = _private(
            _of_module("botocore.parsers", "JSONParser")(), "parse"
        )

    def needs_credentials(self) -> bool:
        """Return whether the next signature refreshes the credentials first."""
        refresh_needed = getattr(_private(self.signer, "_credentials"), "refresh_needed", None)
        return refresh_needed is not None and bool(refresh_needed())


def _request_class() -> Any:
    base: Any = _of_module("botocore.awsrequest", "AWSRequest")

    class Request(base):  # type: ignore[misc]  # botocore has no types
        """The SDK's request, which otherwise prepares itself again whenever its body is read."""

        @property
        def body(self) -> bytes:
            return self.data  # type: ignore[no-any-return]

    probe = Request("POST", "http://localhost/", {"Name": "value"}, b"body")
    _private(probe, "data")
    if list(_private(probe, "headers").items()) != [("Name", "value")]:
        raise SdkInternalMissing("AWSRequest changes its headers")
    return Request


class ConnectionPool:
    """The connections of a botocore client to a URL, with its settings for proxies and TLS.

    Raises:
        SdkInternalMissing: A private name is missing.
        ValueError: The URL, or that of a proxy, is invalid.

    Attributes:
        get: Returns a connection, open or not.
        new: Returns a connection that is not open, and that the pool does not keep.
        put: Returns a connection to the pool, open or not.
        prepare_proxy: Opens a connection through a tunnel.
        uses_tunnel: Whether connections go through a tunnel.
        proxy_url: URL of the proxy; None without one.
        masked_proxy_url: The same without its password.
        certificate_error: Raised for a certificate of another host, besides errors of `ssl`.
    """

    def __init__(self, client: Any, url: str) -> None:
        session = _private(_private(client, "_endpoint"), "http_session")
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
            self.uses_tunnel = bool(needs_tunnel(proxy, proxy_config, urlsplit(url).scheme))
            self.masked_proxy_url = self.proxy_url and mask(self.proxy_url)
            self.get: Callable[[], Any] = _private(self.pool, "_get_conn")
            self.new: Callable[[], Any] = _private(self.pool, "_new_conn")
            self.put: Callable[[Any], None] = _private(self.pool, "_put_conn")
            self.prepare_proxy: Callable[[Any], None] = _private(self.pool, "_prepare_proxy")
            self._check_attributes()
        except (TypeError, AttributeError) as error:
            raise SdkInternalMissing(f"a private function of botocore or urllib3 differs ({error})") from None
        except ValueError as error:
            source = "the environment's proxy for it: " if self.proxy_url else ""
            raise ValueError(f"{source}{error}") from None

    def _check_attributes(self) -> None:
        """Check the attributes of the pool and its connections that calls use, without opening one."""
        for name in ("proxy_headers", "timeout"):
            _private(self.pool, name)
        connection = self.get()
        try:
            for name in ("is_closed", "has_connected_to_proxy", "proxy", "sock", "timeout", "connect"):
                _private(connection, name)
        finally:
            self.put(connection)
