"""Spark sessions that AWS runs: in AWS Glue, on EMR Serverless and on EMR clusters.

Each is a Spark Connect server with a token that expires. A run starts a session, replaces its token in time,
and stops it at the end.

Sources:
    https://docs.aws.amazon.com/glue/latest/dg/interactive-sessions-spark-connect-connecting.html (Glue 5.1)
    https://docs.aws.amazon.com/emr/latest/EMR-Serverless-UserGuide/spark-connect.html (from release 7.13 on)
    https://docs.aws.amazon.com/emr/latest/APIReference/API_StartSession.html (from emr-spark-8.0.0 on)
"""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from contextlib import suppress
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
from kinesis_assets.spark.connect import ConnectServer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from kinesis_assets.kinesis.clock import Clock


@dataclass(frozen=True, slots=True)
class Status:
    """The status of a session: the service's own name of its state, and what it says about it."""

    state: str
    details: str | None = None

    def __str__(self) -> str:
        return f"{self.state}: {self.details}" if self.details else self.state


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a session is, and what authenticates its clients.

    Attributes:
        token: A secret.
        expires: When the token expires, by the service's clock.
    """

    url: str
    token: str
    expires: datetime

    def __repr__(self) -> str:
        return f"Endpoint({self.url!r})"


class Service(ABC):
    """A service in an account and a region.

    Each method raises what boto3 raises.

    Args:
        settings: The settings of the session, one of the classes in `dagster/settings/spark_settings.py`, as
            a map.

    Attributes:
        ready: The states of a session that accepts connections.
        starting: The states before. In any other state, a session has ended.
    """

    title: str
    ready: frozenset[str]
    starting: frozenset[str]

    def __init__(self, client: Any, settings: Mapping[str, Any], spark_config: Mapping[str, str]) -> None:
        self._client = client
        self._settings = settings
        self._spark_config = dict(spark_config)

    @abstractmethod
    def start(self, name: str) -> str:
        """Start a session, and return its id. A second request with the same name starts no other session."""

    @abstractmethod
    def status(self, session_id: str) -> Status:
        """Return the status of a session."""

    @abstractmethod
    def endpoint(self, session_id: str) -> Endpoint:
        """Return the endpoint of a session that is ready, with a new token."""

    @abstractmethod
    def stop(self, session_id: str) -> None:
        """Stop a session."""


class Glue(Service):
    """AWS Glue in an account."""

    title = "AWS Glue"
    ready = frozenset({"READY"})
    starting = frozenset({"PROVISIONING"})

    def start(self, name: str) -> str:
        # A request that the SDK repeats after a lost response is refused, since the session exists.
        with suppress(self._client.exceptions.AlreadyExistsException):
            self._client.create_session(
                Id=name,
                Role=self._settings["execution_role_arn"],
                Command={"Name": "glueetl", "PythonVersion": "3"},
                SessionType="SPARK_CONNECT",
                GlueVersion=self._settings["glue_version"],
                WorkerType=self._settings["worker_type"],
                NumberOfWorkers=self._settings["workers"],
                IdleTimeout=self._settings["idle_timeout_minutes"],
                Tags=self._settings["tags"],
                DefaultArguments=self._arguments(),
            )
        return name  # it is the id

    def _arguments(self) -> dict[str, Any]:
        # Glue takes all settings in one argument, and repeats the option's name between them.
        config = " --conf ".join(f"{name}={value}" for name, value in self._spark_config.items())
        return {"--language": "python", **({"--conf": config} if config else {})}

    def status(self, session_id: str) -> Status:
        session = self._client.get_session(Id=session_id)["Session"]
        return Status(session["Status"], session.get("ErrorMessage"))

    def endpoint(self, session_id: str) -> Endpoint:
        found = self._client.get_session_endpoint(SessionId=session_id)["SparkConnect"]
        return Endpoint(found["Url"], found["AuthToken"], found["AuthTokenExpirationTime"])

    def stop(self, session_id: str) -> None:
        self._client.stop_session(Id=session_id)


class EmrServerless(Service):
    """An application of EMR Serverless."""

    title = "EMR Serverless"
    ready = frozenset({"STARTED", "IDLE", "BUSY"})
    starting = frozenset({"SUBMITTED", "STARTING"})

    def start(self, name: str) -> str:
        session = self._client.start_session(
            applicationId=self._settings["application_id"],
            executionRoleArn=self._settings["execution_role_arn"],
            clientToken=name,
            name=name,
            idleTimeoutMinutes=self._settings["idle_timeout_minutes"],
            tags=self._settings["tags"],
            configurationOverrides={
                "runtimeConfiguration": [
                    {"classification": "spark-defaults", "properties": self._spark_config}
                ]
            },
        )
        return str(session["sessionId"])

    def status(self, session_id: str) -> Status:
        session = self._client.get_session(**self._named(session_id))["session"]
        return Status(session["state"], session.get("stateDetails"))

    def endpoint(self, session_id: str) -> Endpoint:
        found = self._client.get_session_endpoint(**self._named(session_id))
        return Endpoint(found["endpoint"], found["authToken"], found["authTokenExpiresAt"])

    def stop(self, session_id: str) -> None:
        self._client.terminate_session(**self._named(session_id))

    def _named(self, session_id: str) -> dict[str, str]:
        return {"applicationId": self._settings["application_id"], "sessionId": session_id}


class Emr(Service):
    """An EMR cluster."""

    title = "EMR"
    ready = EmrServerless.ready
    starting = EmrServerless.starting

    def start(self, name: str) -> str:
        role = self._settings["execution_role_arn"]
        session = self._client.start_session(
            ClusterId=self._settings["cluster_id"],
            **({} if role is None else {"ExecutionRoleArn": role}),
            ClientRequestToken=name,
            Name=name,
            SessionIdleTimeoutInMinutes=self._settings["idle_timeout_minutes"],
            Tags=[{"Key": key, "Value": value} for key, value in self._settings["tags"].items()],
            EngineConfigurations=[{"Classification": "spark-defaults", "Properties": self._spark_config}],
        )
        return str(session["Id"])

    def status(self, session_id: str) -> Status:
        session = self._client.get_session(**self._named(session_id))["Session"]
        return Status(session["State"], session.get("StateChangeReason"))

    def endpoint(self, session_id: str) -> Endpoint:
        found = self._client.get_session_endpoint(**self._named(session_id))
        return Endpoint(found["Endpoint"], found["AuthToken"], found["AuthTokenExpirationTime"])

    def stop(self, session_id: str) -> None:
        self._client.terminate_session(**self._named(session_id))

    def _named(self, session_id: str) -> dict[str, str]:
        return {"ClusterId": self._settings["cluster_id"], "SessionId": session_id}


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
    while (status := service.status(session_id)).state not in service.ready:
        if status.state not in service.starting:
            raise LandingFailed(
                f"session {session_id} on {service.title} ended before it was ready ({status}). See "
                "its log there, and correct managed_spark or spark_config"
            )
        if clock.monotonic() >= deadline:
            raise LandingFailed(
                f"session {session_id} on {service.title} is still not ready after {SECONDS_TO_START:.0f} s "
                f"({status}). Look for a lack of capacity or rights there, and run again"
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
"""A token is replaced after this time, even if it expires later by this machine's clock, which may be wrong.
"""

FEWEST_SECONDS = 1.0
"""Minimum seconds from one request for a token to the next."""

_KEPT = "%s: the token could not be replaced, and the old one is used as long as it is accepted: %s"


class Token:
    """The current token of a session, for any thread. `request` returns the endpoint with a new one."""

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
