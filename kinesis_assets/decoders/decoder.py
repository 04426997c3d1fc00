"""The protocol of a decoder: one step in decoding a record's bytes to a value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, Self

import msgspec

from kinesis_assets.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql.types import DataType

MAX_BYTES = 64 << 20
"""The default of a record's maximum decompressed size, in bytes."""

MOST_REPEATED = 1 << 30
"""The maximum number of bytes that the documents of a record may repeat: a megabyte could become 100 GB."""

_MAX_MAX_BYTES = 1 << 30  # Arrow arrays with 32-bit offsets and Spark's rows hold less than 2 GiB

_ERROR_CHARACTERS = 500

INVALID_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding of bytes that are not the expected JSON document raises."""


class Undecodable(Exception):
    """A record cannot be decoded. The reason is stored on its row; `decode` never raises this error."""


@dataclass(slots=True)
class Decoding:
    """The state of decoding one record, or a document of one.

    Attributes:
        value: The result of the steps so far, at first the record's bytes; None once a step has failed.
        schema_id: The id in the record's header of the schema with which it was written, if it has one.
        error: The reason why the record cannot be decoded.
        data: The bytes that are kept if it cannot be decoded: those of the record, or of the document.
    """

    value: Any
    schema_id: str | None = None
    error: str | None = None
    data: bytes | None = None

    def part(self, document: bytes) -> Decoding:
        """Return a document of this one, which is decoded on its own."""
        return Decoding(document, self.schema_id, data=document)

    def fail(self, name: str, error: Undecodable) -> None:
        """Keep the error of a step."""
        self.value = None
        self.error = f"{name}: {error}"[:_ERROR_CHARACTERS]

    def valued(self, value: Any) -> Decoding:
        """Return another value of this document."""
        return Decoding(value, self.schema_id, data=self.data)


Step = Callable[[Decoding], "Iterable[Decoding] | None"]
"""The function of a decoder that a task applies to each record.

It changes `Decoding.value` and returns None; or, in a class with `multiplies = True`, it returns the
documents of the record, which may be the same one, several or none. It raises `Undecodable` for a bad record.
Any other exception fails the job.
"""


class RegisteredName(NamedTuple):
    """The name of a schema in a registry.

    Attributes:
        registry_name: The registry of AWS Glue, in its account and region; empty for a subject elsewhere.
        number: The number of the version; None for the latest.
        message: The full name of a message of Protobuf; None for the only one.
    """

    registry_name: str
    name: str
    number: int | None = None
    message: str | None = None

    @property
    def described(self) -> str:
        """What errors call it."""
        version = "the latest version" if self.number is None else f"version {self.number}"
        if self.registry_name:
            return f"{version} of the schema {self.name} in the registry {self.registry_name}"
        return f"{version} of the subject {self.name}"


@dataclass(frozen=True, slots=True)
class DecoderSettings:
    """What the settings of a typed table say about its records.

    The decoder class of a format has a class method `from_settings`, which creates a decoder of them.

    Attributes:
        schema: The type of the records as DDL. It is empty if the schema is a registered one.
        registered: The schema that is read from the registry; None for others.
        key: The fields that are columns of the setting `key`, unless these are computed.
        stored_as: By field in lower case, the columns that `select` makes of it, as it is, renamed or cast.
        file: The content of the schema's file: a descriptor set, or an Avro schema, which is the reader's for
            formats whose records have that of the writer. It is empty for others.
        message: The full name of a message in the descriptor set.
    """

    schema: str
    registered: RegisteredName | None = None
    registry: Mapping[str, str] = field(default_factory=dict)
    key: tuple[str, ...] = ()
    stored_as: Mapping[str, Sequence[str]] = field(default_factory=dict)
    file: bytes = b""
    message: str = ""

    @property
    def reader(self) -> str | None:
        """The reader's Avro schema, whose defaults and aliases apply; None if there is none."""
        return self.file.decode() if self.file else None


class Decoder(Protocol):
    """One step. It is configured on the driver and applied on the executors.

    A decoder whose class has `multiplies = True` may make several documents of a record, or none. One whose
    class has `has_schema_id = True` sets `Decoding.schema_id`.
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

    def make_step(self) -> Step:
        """Create the function that a task applies to each record."""


class BytesDecoder:
    """A decoder that returns bytes, and whose configuration is complete without a Spark session."""

    spark_type: ClassVar[None] = None

    def resolved(self) -> Self:
        """See `Decoder`."""
        return self


def value_step(read: Callable[[bytes], Any]) -> Step:
    """Create the step that replaces the bytes of a document by what a function returns for them."""

    def step(decoding: Decoding) -> None:
        decoding.value = read(decoding.value)

    return step


def check_max_bytes(max_bytes: int) -> None:
    """Raise `InvalidInput` if `max_bytes` is out of range."""
    if not 1 <= max_bytes <= _MAX_MAX_BYTES:
        raise InvalidInput(f"max_bytes must be from 1 to {_MAX_MAX_BYTES} (1 GiB), not {max_bytes}")
