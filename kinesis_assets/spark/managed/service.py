"""What the services have in common: they start, describe and stop sessions."""

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
        state: Whether it accepts connections.
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
        url: The URL, with https or sc as its scheme.
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
        client: The boto3 client of the service.
        settings: The settings of the session, one of the classes in `dagster/settings/managed_spark.py`, as
            a map.
        spark_config: The settings of Spark with which a session is started.

    Attributes:
        title: The name of the service.

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
