"""One session from its start to its stop."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from uuid import uuid4

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from kinesis_assets.errors import LandingFailed
from kinesis_assets.kinesis.clock import MACHINE_CLOCK
from kinesis_assets.retry import Backoff
from kinesis_assets.spark.managed.services import Emr, EmrServerless, Glue, State
from kinesis_assets.spark.server import ConnectServer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kinesis_assets.kinesis.clock import Clock
    from kinesis_assets.spark.managed.services import Endpoint, Service


SERVICES: dict[str, type[Service]] = {"emr-serverless": EmrServerless, "emr": Emr, "glue": Glue}
"""The services by their names in the setting `managed_spark`, which are also their names in boto3."""

SECONDS_TO_START = 900.0
"""Maximum seconds until a session accepts connections. EMR Serverless may start its application first."""

_POLLS = Backoff(first=1.0, longest=10.0)

_CLIENT = Config(connect_timeout=5, read_timeout=20, retries={"mode": "standard", "total_max_attempts": 4})

_RIGHTS = "Check the settings of managed_spark, and the rights of this process, see docs/spark.md"

_NOT_STOPPED = "%s session %s could not be stopped, and ends after its idle timeout: %s"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ManagedSession:
    """A session that accepts connections."""

    service: Service
    session_id: str
    server: ConnectServer

    def stop(self) -> None:
        """Stop the session. If that fails, a warning is logged: it ends after its idle timeout."""
        _stop(self.service, self.session_id)


def service_of(settings: Mapping[str, Any], spark_config: Mapping[str, Any]) -> Service:
    """Return the service that settings name.

    Raises:
        LandingFailed: The AWS SDK has no region, or an invalid configuration.
    """
    kind = SERVICES[settings["service"]]
    try:
        client = boto3.Session(
            profile_name=settings["profile_name"], region_name=settings["region_name"]
        ).client(settings["service"], config=_CLIENT)
    except BotoCoreError as error:
        raise LandingFailed(
            f"a session on {kind.title} cannot be started: {error}. Correct region_name or profile_name of "
            "managed_spark, or the AWS configuration of this process"
        ) from error
    return kind(client, settings, {name: str(value) for name, value in spark_config.items()})


def open_session(service: Service, clock: Clock = MACHINE_CLOCK) -> ManagedSession:
    """Start a session, and wait until it accepts connections.

    Raises:
        LandingFailed: The session is not started, ends, or takes longer than `SECONDS_TO_START`.
    """
    name = f"kinesis-assets-{uuid4().hex}"
    try:
        session_id = service.start(name)
    except (BotoCoreError, ClientError) as error:
        raise LandingFailed(f"a session on {service.title} cannot be started: {error}. {_RIGHTS}") from error
    try:
        _wait_until_ready(service, session_id, clock)
        endpoint = service.endpoint(session_id)
        token = Token(
            f"{service.title} session {session_id}", lambda: service.endpoint(session_id), endpoint, clock
        )
        return ManagedSession(service, session_id, ConnectServer(_connect_url(endpoint.url), token))
    except (BotoCoreError, ClientError) as error:
        _stop(service, session_id)
        raise LandingFailed(
            f"session {session_id} on {service.title} cannot be used: {error}. {_RIGHTS}"
        ) from error
    except BaseException:  # a stopped run must not leave a session that costs money
        _stop(service, session_id)
        raise


def _wait_until_ready(service: Service, session_id: str, clock: Clock) -> None:
    deadline, polls = clock.monotonic() + SECONDS_TO_START, 0
    while (status := service.status(session_id)).state is not State.READY:
        if status.state is State.ENDED:
            raise LandingFailed(
                f"session {session_id} on {service.title} ended before it was ready ({status.reason}). See "
                "its log there, and correct managed_spark or spark_config"
            )
        if clock.monotonic() >= deadline:
            raise LandingFailed(
                f"session {session_id} on {service.title} is still not ready after {SECONDS_TO_START:.0f} s "
                f"({status.reason}). Look for a lack of capacity or rights there, and run again"
            )
        polls += 1
        clock.sleep(_POLLS.wait(polls))


def _connect_url(url: str) -> str:
    """Return an endpoint as the URL of a Spark Connect server; https means one with TLS."""
    parts = urlsplit(url)
    if parts.scheme == "sc":
        return url
    return f"sc://{parts.hostname}:{parts.port or 443}/;use_ssl=true"


def _stop(service: Service, session_id: str) -> None:
    try:
        service.stop(session_id)
    except (BotoCoreError, ClientError) as error:
        _log.warning(_NOT_STOPPED, service.title, session_id, error)


MOST_SECONDS = 600.0
"""A token is replaced after this time even if it expires much later by this machine's clock, which may be
wrong."""

FEWEST_SECONDS = 1.0
"""Minimum seconds from one request for a token to the next."""


_KEPT = "%s: the token could not be replaced, and the old one is used as long as it is accepted: %s"


class Token:
    """The current token of a session. It can be used by several threads.

    Args:
        request: Returns the endpoint with a new token.
    """

    def __init__(self, subject: str, request: Callable[[], Endpoint], first: Endpoint, clock: Clock) -> None:
        self._subject = subject
        self._request = request
        self._clock = clock
        self._lock = threading.Lock()
        self._keep(first)

    def __call__(self) -> str:
        """Return a token that has not expired."""
        with self._lock:
            if self._clock.monotonic() >= self._replaced_at:
                self._replace()
            return self._value

    def _replace(self) -> None:
        try:
            self._keep(self._request())
        except (BotoCoreError, ClientError) as error:  # the server refuses the old one if it has expired
            _log.warning(_KEPT, self._subject, error)
            self._replaced_at = self._clock.monotonic() + FEWEST_SECONDS

    def _keep(self, endpoint: Endpoint) -> None:
        left = endpoint.expires.timestamp() - self._clock.time()
        self._value = endpoint.token
        self._replaced_at = self._clock.monotonic() + min(MOST_SECONDS, max(FEWEST_SECONDS, left / 2))
