"""The expressions by which rows of a table and records of a stream are compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kinesis_assets.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

POSITION = ("shard_id", "sequence_number", "sub_sequence_number")
"""The columns of a record that are its key if the table has its position."""

_PAIRS = (2, 3)
_NOT_AS_TEXT = ("--where", "--latest-by")


@dataclass(frozen=True, slots=True)
class Rules:
    """The expressions by which rows and records are compared.

    Attributes:
        keys: Of the table: what identifies a record.
        stream_keys: The same of the stream. By default `POSITION`, without the last if there are two keys.
        values: Of the table: what is compared besides.
        stream_values: The same of the stream; by default the payload.
        latest_by: Of the stream: the order of the records with a key, of which the table keeps the last.
        where: Of the table: the rows that are compared; None for all.

    Raises:
        InvalidInput: Their numbers do not fit.
    """

    keys: Sequence[str]
    stream_keys: Sequence[str] = ()
    values: Sequence[str] = ()
    stream_values: Sequence[str] = ()
    latest_by: Sequence[str] = ()
    where: str | None = None

    def __post_init__(self) -> None:
        if not self.stream_keys and len(self.keys) not in _PAIRS:
            raise InvalidInput(
                "--key: give the columns of the shard id and of the sequence number (and of the sub-sequence "
                "number), or give --stream-key too"
            )
        if self.stream_keys and len(self.stream_keys) != len(self.keys):
            raise InvalidInput("--stream-key: give one for each --key, in the same order")
        if len(self.stream_values or self.values[:1]) != len(self.values):
            raise InvalidInput("--stream-value: give one for each --value, in the same order")
        if self.latest_by and self.is_by_position:
            raise InvalidInput("--latest-by: a table that keeps the last record of a key needs --stream-key")

    @property
    def is_by_position(self) -> bool:
        """Whether the table has the position of each record."""
        return not self.stream_keys

    @property
    def of_table(self) -> dict[str, Sequence[str]]:
        """The expressions of the table, by option."""
        return {
            "--key": self.keys,
            "--value": self.values,
            "--where": [] if self.where is None else [self.where],
        }

    @property
    def of_stream(self) -> dict[str, Sequence[str]]:
        """The expressions of the stream, by option."""
        return {
            "--stream-key": self.stream_keys or POSITION[: len(self.keys)],
            "--stream-value": self.stream_values or (("data",) if self.values else ()),
            "--latest-by": self.latest_by,
        }


def check_expressions(rows: DataFrame, expressions: dict[str, Sequence[str]]) -> None:
    """Let Spark analyze expressions. Nothing is read.

    Args:
        expressions: The expressions, by option.

    Raises:
        InvalidInput: One of them is invalid, is not computed from one row alone, or is compared as text, but
            different values may have the same text.
    """
    from pyspark.errors import AnalysisException  # noqa: PLC0415  # options are checked without Spark
    from pyspark.sql import functions as F  # noqa: N812, PLC0415
    from pyspark.sql.types import ArrayType, MapType, StructType  # noqa: PLC0415

    from kinesis_assets.spark.session import first_line  # noqa: PLC0415

    for option, text in ((option, text) for option, texts in expressions.items() for text in texts):
        try:
            column = F.expr(text)
            # A filter also refuses aggregations, windows and generators. On Connect, all is refused here.
            _ = rows.where(column if option == "--where" else column.isNotNull()).schema
            kind = rows.select(column).schema[0].dataType
        except AnalysisException as error:
            raise InvalidInput(f"{option} {text[:200]!r}: {first_line(error)}") from error
        if isinstance(kind, (ArrayType, MapType, StructType)) and option not in _NOT_AS_TEXT:
            raise InvalidInput(
                f"{option} {text[:200]!r}: name its elements or fields, or use to_json. Different values of "
                f"the type {kind.simpleString()[:200]} may have the same text"
            )


def mentioned(columns: Sequence[str], expressions: dict[str, Sequence[str]]) -> list[str]:
    """Return the columns that expressions may need: those whose names occur in their texts."""
    text = " ".join(each for texts in expressions.values() for each in texts).lower()
    return [name for name in columns if "*" in text or "`" in name or name.lower() in text]
