"""What a decoder is: one step of a record's way from its bytes to a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self

from kinesis_assets.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql.types import DataType

MAX_BYTES = 64 << 20
"""What one record may grow to, uncompressed, unless a decoder is told otherwise."""

_MAX_MAX_BYTES = 1 << 30  # an Arrow array of 32-bit offsets, and Spark's rows, hold less than twice as much


class Undecodable(Exception):
    """The record cannot be decoded: its row says why. Never leaves this package."""


@dataclass(slots=True)
class Decoding:
    """A record on its way.

    Attributes:
        value: What the steps so far made of its bytes; None once it has failed.
        schema_id: Of its Glue framing, if it has one.
        error: Why it cannot be decoded.
    """

    value: Any
    schema_id: str | None = None
    error: str | None = None


class Decoder(Protocol):
    """One step: what it is to do, and on the executors the doing of it."""

    @property
    def name(self) -> str:
        """What errors begin with."""

    @property
    def spark_type(self) -> str | DataType | None:
        """Of the value that it gives; None for bytes, which a further decoder can take."""

    def resolved(self) -> Self:
        """The same decoder, checked and ready for another machine. Called on the driver, with a session.

        Raises:
            InvalidInput: It cannot be meant.
        """

    def make_step(self) -> Callable[[Decoding], None]:
        """What a task calls with each record. It raises `Undecodable`; all else fails the job."""


def check_max_bytes(max_bytes: int) -> None:
    """Raise `InvalidInput` for a bound that cannot be kept."""
    if not 1 <= max_bytes <= _MAX_MAX_BYTES:
        raise InvalidInput(f"max_bytes must be from 1 to {_MAX_MAX_BYTES} (1 GiB), not {max_bytes}")
