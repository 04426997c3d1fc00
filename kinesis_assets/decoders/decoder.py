"""The protocol of a decoder: one step in decoding a record's bytes to a value."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

from kinesis_assets.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql.types import DataType

MAX_BYTES = 64 << 20
"""The default of a record's maximum decompressed size, in bytes."""

_MAX_MAX_BYTES = 1 << 30  # Arrow arrays with 32-bit offsets and Spark's rows hold less than 2 GiB


class Undecodable(Exception):
    """A record cannot be decoded. The reason is stored on its row; `decode` never raises this error."""


@dataclass(slots=True)
class Decoding:
    """The state of decoding one record.

    Attributes:
        value: The result of the steps so far, at first the record's bytes; None once a step has failed.
        schema_id: The schema version id in the record's Glue header, if it has one.
        error: The reason why the record cannot be decoded.
    """

    value: Any
    schema_id: str | None = None
    error: str | None = None


class RegisteredName(NamedTuple):
    """The name of a schema in the Glue Schema Registry.

    Attributes:
        number: The number of the version; None for the latest.
    """

    registry_name: str
    name: str
    number: int | None = None


@dataclass(frozen=True, slots=True)
class DecoderSettings:
    """What the settings of a typed table say about its records.

    The decoder class of a format has a class method `from_settings`, which creates a decoder of them.

    Attributes:
        schema: The type of the records as DDL; or the text of the schema's file, for a format that takes its
            definition. It is empty if the schema is a registered one.
        registered: The schema that is read from the registry; None for others.
        registry: The setting `registry`.
        key: The columns of the setting `key`.
    """

    schema: str
    registered: RegisteredName | None = None
    registry: Mapping[str, str] = field(default_factory=dict)
    key: tuple[str, ...] = ()


class Decoder(Protocol):
    """One step. It is configured on the driver and applied on the executors.

    A decoder whose class has `has_schema_id = True` sets `Decoding.schema_id`.
    """

    @property
    def name(self) -> str:
        """The prefix of the decoder's errors."""

    @property
    def spark_type(self) -> str | DataType | None:
        """The type of the returned value; None for bytes, to which a further decoder can be applied."""

    def resolved(self) -> Self:
        """Return a validated copy that can be sent to executors. Called on the driver with a Spark session.

        Raises:
            InvalidInput: The decoder's configuration is invalid.
        """

    def make_step(self) -> Callable[[Decoding], None]:
        """Create the function that a task applies to each record.

        The function raises `Undecodable` for a bad record. Any other exception fails the job.
        """


def check_max_bytes(max_bytes: int) -> None:
    """Raise `InvalidInput` if `max_bytes` is out of range."""
    if not 1 <= max_bytes <= _MAX_MAX_BYTES:
        raise InvalidInput(f"max_bytes must be from 1 to {_MAX_MAX_BYTES} (1 GiB), not {max_bytes}")
