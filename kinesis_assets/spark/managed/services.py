"""The services of AWS that run Spark sessions: how each starts, describes and stops them.

Interactive sessions of AWS Glue with Spark Connect, from Glue 5.1 on.

Source: https://docs.aws.amazon.com/glue/latest/dg/interactive-sessions-spark-connect-connecting.html

Sessions on Amazon EMR Serverless, from release 7.13 on.

Source: https://docs.aws.amazon.com/emr/latest/EMR-Serverless-UserGuide/spark-connect.html

Sessions on Amazon EMR clusters on EC2, from release emr-spark-8.0.0 on.

Source: https://docs.aws.amazon.com/emr/latest/APIReference/API_StartSession.html
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime


class State(StrEnum):
    """Whether a session accepts connections."""

    STARTING = "starting"
    READY = "ready"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Status:
    """The status of a session.

    Attributes:
        reason: The service's own name of the state, and what it says about it.
    """

    state: State
    reason: str

    @classmethod
    def of(cls, name: str, details: str | None, ready: frozenset[str], starting: frozenset[str]) -> Status:
        """Return the status for a service's name of a state. A name that is in neither set has ended."""
        state = State.READY if name in ready else State.STARTING if name in starting else State.ENDED
        return cls(state, f"{name}: {details}" if details else name)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a session is, and what authenticates its clients.

    Attributes:
        token: The token, which is a secret.
        expires: When the token expires, by the service's clock.
    """

    url: str
    token: str
    expires: datetime

    def __repr__(self) -> str:
        return f"Endpoint({self.url!r})"


class Service(ABC):
    """A service in an account and a region.

    Args:
        settings: The settings of the session, one of the classes in `dagster/settings/spark_settings.py`, as
            a map.

    Each method raises what boto3 raises.
    """

    title: str

    def __init__(self, client: Any, settings: Mapping[str, Any], spark_config: Mapping[str, str]) -> None:
        self._client = client
        self._settings = settings
        self._spark_config = dict(spark_config)

    @abstractmethod
    def start(self, name: str) -> str:
        """Start a session, and return its id.

        Args:
            name: Its name. A repeated request with the same name starts no second session.
        """

    @abstractmethod
    def status(self, session_id: str) -> Status:
        """Return the status of a session."""

    @abstractmethod
    def endpoint(self, session_id: str) -> Endpoint:
        """Return the endpoint of a session that is ready, with a new token."""

    @abstractmethod
    def stop(self, session_id: str) -> None:
        """Stop a session."""


_GLUE_READY = frozenset({"READY"})
_GLUE_STARTING = frozenset({"PROVISIONING"})


class Glue(Service):
    """AWS Glue in an account."""

    title = "AWS Glue"

    def start(self, name: str) -> str:
        """Start a session, see `Service`. Its name is its id."""
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
        return name

    def _arguments(self) -> dict[str, Any]:
        # Glue takes all settings in one argument, and repeats the option's name between them.
        config = " --conf ".join(f"{name}={value}" for name, value in self._spark_config.items())
        return {"--language": "python", **({"--conf": config} if config else {})}

    def status(self, session_id: str) -> Status:
        """Return the status of a session."""
        session = self._client.get_session(Id=session_id)["Session"]
        return Status.of(session["Status"], session.get("ErrorMessage"), _GLUE_READY, _GLUE_STARTING)

    def endpoint(self, session_id: str) -> Endpoint:
        """Return the endpoint of a session, see `Service`."""
        found = self._client.get_session_endpoint(SessionId=session_id)["SparkConnect"]
        return Endpoint(found["Url"], found["AuthToken"], found["AuthTokenExpirationTime"])

    def stop(self, session_id: str) -> None:
        """Stop a session."""
        self._client.stop_session(Id=session_id)


_EMR_READY = frozenset({"STARTED", "IDLE", "BUSY"})
_EMR_STARTING = frozenset({"SUBMITTED", "STARTING"})


class EmrServerless(Service):
    """An application of EMR Serverless."""

    title = "EMR Serverless"

    def start(self, name: str) -> str:
        """Start a session, see `Service`."""
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
        """Return the status of a session."""
        session = self._client.get_session(
            applicationId=self._settings["application_id"], sessionId=session_id
        )["session"]
        return Status.of(session["state"], session.get("stateDetails"), _EMR_READY, _EMR_STARTING)

    def endpoint(self, session_id: str) -> Endpoint:
        """Return the endpoint of a session, see `Service`."""
        found = self._client.get_session_endpoint(
            applicationId=self._settings["application_id"], sessionId=session_id
        )
        return Endpoint(found["endpoint"], found["authToken"], found["authTokenExpiresAt"])

    def stop(self, session_id: str) -> None:
        """Stop a session."""
        self._client.terminate_session(applicationId=self._settings["application_id"], sessionId=session_id)


class Emr(Service):
    """An EMR cluster."""

    title = "EMR"

    def start(self, name: str) -> str:
        """Start a session, see `Service`."""
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
        """Return the status of a session."""
        session = self._client.get_session(ClusterId=self._settings["cluster_id"], SessionId=session_id)[
            "Session"
        ]
        return Status.of(session["State"], session.get("StateChangeReason"), _EMR_READY, _EMR_STARTING)

    def endpoint(self, session_id: str) -> Endpoint:
        """Return the endpoint of a session, see `Service`."""
        found = self._client.get_session_endpoint(
            ClusterId=self._settings["cluster_id"], SessionId=session_id
        )
        return Endpoint(found["Endpoint"], found["AuthToken"], found["AuthTokenExpirationTime"])

    def stop(self, session_id: str) -> None:
        """Stop a session."""
        self._client.terminate_session(ClusterId=self._settings["cluster_id"], SessionId=session_id)
