"""The result of a comparison, and whether it proves anything."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kinesis_assets.operations.compare.rules import Rules

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
