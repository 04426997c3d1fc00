"""How rows and records are compared, the result of that, and whether it proves anything."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kinesis_assets.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame

POSITION = ("shard_id", "sequence_number", "sub_sequence_number")
"""The columns of a record that are its key if the table has its position."""

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
        if not self.stream_keys and len(self.keys) not in {2, 3}:
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


KINDS = ("missing", "doubled", "different", "extra")
"""The kinds of differences: a record without a row; more rows than records; a row with another value; and a
row without a record."""


@dataclass(frozen=True, slots=True)
class Example:
    """A key for which the table differs.

    Attributes:
        kind: One of `KINDS`.
        sub_sequence_number: Its place in its aggregate; None if it is not known.
        arrival: When it arrived, in ISO 8601; None if it is not known.
        rows: The number of rows, or of records that have none.
    """

    kind: str
    shard: str | None
    sequence_number: str | None
    sub_sequence_number: int | None
    arrival: str | None
    key: Sequence[str | None]
    rows: int


@dataclass(slots=True)
class Counts:
    """What was counted of a shard.

    Attributes:
        records: Records of the range that the table should have.
        equal: Records with a row of the same value.
        missing: Records without a row.
        doubled: Rows beyond the number of records with their key.
        different: Records whose row has another value.
        extra: Rows without a record.
        outside: Rows of records that are not in the range. They are no differences.
    """

    records: int = 0
    equal: int = 0
    missing: int = 0
    doubled: int = 0
    different: int = 0
    extra: int = 0
    outside: int = 0

    @property
    def rows(self) -> int:
        """The rows of the table."""
        return self.equal + self.doubled + self.different + self.extra + self.outside

    @property
    def is_equal(self) -> bool:
        """Whether there is no difference."""
        return not (self.missing or self.doubled or self.different or self.extra)


@dataclass(frozen=True, slots=True)
class Nulls:
    """How often a key is null.

    Attributes:
        records: Of how many records of the range.
        rows: Of how many rows.
    """

    records: int
    rows: int


@dataclass(slots=True)
class Differences:
    """The result of a comparison.

    Attributes:
        shards: The counts by shard id; under None those of rows whose shard is not known.
        nulls: How often each of the keys is null.
        shared: Records of the range that have the key of another one.
        examples: Some differences of each kind.
    """

    shards: dict[str | None, Counts] = field(default_factory=dict)
    nulls: Sequence[Nulls] = ()
    shared: int = 0
    examples: list[Example] = field(default_factory=list)

    @property
    def records(self) -> int:
        """The records of the range."""
        return sum(counts.records for counts in self.shards.values())

    @property
    def rows(self) -> int:
        """The rows of the table."""
        return sum(counts.rows for counts in self.shards.values())

    @property
    def is_equal(self) -> bool:
        """Whether there is no difference."""
        return all(counts.is_equal for counts in self.shards.values())


def no_proof(found: Differences, rules: Rules) -> str | None:
    """Return why a comparison proves nothing even if there is no difference; None if it does."""
    if not found.records:
        return "The range has no records, so this proves nothing. Choose another range"
    for (option, text), nulls in zip(_of_stream(rules), found.nulls, strict=True):
        if nulls.records == found.records:
            return f"{option} {text!r} is null in all records, so this proves nothing. Correct or remove it"
    return None


def notes(found: Differences, rules: Rules) -> Iterator[str]:
    """Yield what someone who reads the counts should know."""
    if rules.is_by_position and found.shared and not rules.values:
        yield (
            f"{found.shared} records are user records of aggregates, of which only the number is compared. "
            "Also give --value, or the sub-sequence number as a third --key"
        )
    of_no_shard = found.shards.get(None, Counts()).rows
    if rules.is_by_position and of_no_shard > found.rows / 2:
        yield (
            f"{of_no_shard} of {found.rows} rows name no shard that the stream lists. The first --key must "
            "be the shard id, such as shardId-000000000000, unless these rows are of shards that have expired"
        )
    of_table = [("--key", text) for text in rules.keys]
    for ours, theirs, nulls in zip(_of_stream(rules), of_table, found.nulls, strict=True):
        for (option, text), count, of in (
            (ours, nulls.records, f"{found.records} records"),
            (theirs, nulls.rows, f"{found.rows} rows"),
        ):
            if count:
                yield f"{option} {text!r} is null in {count} of {of}"


def _of_stream(rules: Rules) -> list[tuple[str, str]]:
    return [("--stream-key", text) for text in rules.of_stream["--stream-key"]]
