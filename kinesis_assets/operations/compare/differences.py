"""The differences between the records of a range and the rows of a table, computed by Spark.

Rows and records are counted by key and value, so that equal keys, also of records in different shards, are
compared as often as they occur. Nulls are equal to each other. Spark aggregates everything, with disks where
memory does not suffice, and the driver gets counts and a few examples. The stream is read once: the counts of
what is equal, and each difference, are kept on the disks of the executors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark import StorageLevel
from pyspark.sql import functions as F  # noqa: N812  # as PySpark documents

from kinesis_assets.operations.compare.comparison import KINDS, Counts, Differences, Example, Nulls
from kinesis_assets.operations.compare.stream_range import INSIDE
from kinesis_assets.spark.session import parallelism

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from kinesis_assets.operations.compare.comparison import Rules

_COUNTS_OF_ROWS = ("equal", "doubled", "different", "extra", "outside")
_COUNTS = ("records", "equal", *KINDS, "outside")
_SHUFFLE_TASKS, _DEFAULT_TASKS = "spark.sql.shuffle.partitions", "200"

_TASKS_AT_ONCE = 8
"""The number of tasks of a shuffle for each one that runs at once. With more, each sorts less."""

_ROW = {"records": 0, "others": 0, "rows": 1}
"""What a row of the table counts as."""


def find_differences(
    records: DataFrame, rows: DataFrame, rules: Rules, *, shards: Collection[str], examples: int
) -> Differences:
    """Compare the records of a range with the rows of a table.

    Args:
        records: The records, with the column `INSIDE`.
        shards: The ids of the listed shards.
        examples: The maximum number of examples of each kind.
    """
    _set_tasks(records.sparkSession)
    by_key = _by_key(_counted(records, rows, rules))
    if rules.is_by_position:
        by_key = _with_places(by_key, shards)
    marks = _marks(len(rules.keys))
    kept = _by_difference(by_key, marks).persist(StorageLevel.DISK_ONLY)
    try:
        found = _without_rows_outside(kept) if rules.is_by_position else kept
        result = _result(found, [*marks])
        for kind in KINDS:
            if any(getattr(counts, kind) for counts in result.shards.values()):
                result.examples += _examples(found, kind, examples)
    finally:
        kept.unpersist()
    return result


def _set_tasks(spark: SparkSession) -> None:
    """Set the number of tasks of a shuffle, unless the session has another one than Spark's default.

    That is too many on one machine, and too few on a large cluster.
    """
    if spark.conf.get(_SHUFFLE_TASKS) == _DEFAULT_TASKS:
        spark.conf.set(_SHUFFLE_TASKS, str(_TASKS_AT_ONCE * parallelism(spark)))


def _counted(records: DataFrame, rows: DataFrame, rules: Rules) -> DataFrame:
    """Return the key and the value of each record and row, and 1 in the column that counts it."""
    of_stream, of_table = rules.of_stream, rules.of_table
    keys = list(zip(of_stream["--stream-key"], of_table["--key"], strict=True))
    is_binary = [_is_binary(records, ours) and _is_binary(rows, theirs) for ours, theirs in keys]
    place = F.struct(
        F.col("shard_id"),
        F.length("sequence_number").alias("digits"),  # texts of equal length compare as their numbers
        F.col("sequence_number"),
        F.col("sub_sequence_number"),
        F.col("approximate_arrival_timestamp"),
    )
    ours = records.select(
        _key([key for key, _ in keys], is_binary).alias("key"),
        _value(of_stream["--stream-value"]).alias("value"),
        F.col(INSIDE).alias("inside"),
        place.alias("place"),
        *(F.expr(text).alias(f"order_{number}") for number, text in enumerate(rules.latest_by)),
    )
    if rules.latest_by:
        ours = _latest(ours, len(rules.latest_by))
    ours = ours.select(
        "key",
        "value",
        F.col("inside").cast("bigint").alias("records"),
        (~F.col("inside")).cast("bigint").alias("others"),
        F.lit(0).cast("bigint").alias("rows"),
        F.when(F.col("inside"), F.col("place")).alias("place"),
    )
    theirs = rows if rules.where is None else rows.where(F.expr(rules.where))
    no_place = F.lit(None).cast(ours.schema["place"].dataType)
    theirs = theirs.select(
        _key([key for _, key in keys], is_binary).alias("key"),
        _value(of_table["--value"]).alias("value"),
        *(F.lit(count).cast("bigint").alias(name) for name, count in _ROW.items()),
        no_place.alias("place"),
    )
    return ours.unionByName(theirs)


def _is_binary(rows: DataFrame, expression: str) -> bool:
    return rows.select(F.expr(expression)).dtypes[0][1] == "binary"


def _key(expressions: Sequence[str], is_binary: Sequence[bool]) -> Column:
    return F.array(
        *(
            F.hex(F.expr(text)) if binary else F.expr(text).cast("string")
            for text, binary in zip(expressions, is_binary, strict=True)
        )
    )


def _value(expressions: Sequence[str]) -> Column:
    """Return a hash of values. It depends on which of them are null, which Spark's own skips."""
    parts = [F.expr(text).cast("string") for text in expressions]
    return F.xxhash64(F.lit(len(parts)), *(each for part in parts for each in (part.isNull(), part)))


def _latest(records: DataFrame, orders: int) -> DataFrame:
    """Return the last record of each key."""
    order = F.struct(
        *(F.col(f"order_{number}") for number in range(orders)),
        *(F.col(f"place.{name}") for name in ("digits", "sequence_number", "sub_sequence_number")),
    )
    latest = records.groupBy("key").agg(F.max_by(F.struct("value", "inside", "place"), order).alias("latest"))
    return latest.select("key", "latest.*")


def _by_key(counted: DataFrame) -> DataFrame:
    """Return one row for each key, with its counts."""
    sums = [F.sum(name).alias(name) for name in ("records", "others", "rows")]
    # Both aggregations use this distribution.
    by_value = counted.repartition("key").groupBy("key", "value").agg(*sums, F.min("place").alias("place"))
    equal = F.least("records", "rows")
    spare = F.col("rows") - equal
    other = F.least(spare, "others")
    by_value = by_value.select(
        "key",
        "records",
        "others",
        equal.alias("equal"),
        (F.col("records") - equal).alias("without_row"),
        (spare - other).alias("without_record"),
        other.alias("outside"),
        "place",
    )
    counts = ("records", "others", "equal", "without_row", "without_record", "outside")
    of_difference = F.min(F.when(F.col("without_row") > 0, F.col("place")))
    by_key = by_value.groupBy("key").agg(
        *(F.sum(name).alias(name) for name in counts),
        F.coalesce(of_difference, F.min("place")).alias("place"),
    )
    different = F.least("without_row", "without_record")
    more = F.col("without_record") - different
    is_here, is_elsewhere = F.col("records") > 0, F.col("others") > 0
    return by_key.select(
        "key",
        "place",
        "records",
        "equal",
        (F.col("without_row") - different).alias("missing"),
        F.when(is_here, more).otherwise(0).alias("doubled"),
        different.alias("different"),
        F.when(is_here | is_elsewhere, 0).otherwise(more).alias("extra"),
        (F.col("outside") + F.when(~is_here & is_elsewhere, more).otherwise(0)).alias("outside"),
    )


def _with_places(by_key: DataFrame, shards: Collection[str]) -> DataFrame:
    """Return the same, with the place that its key names for each row without a record.

    The shard is null unless it is listed, so that rows are not grouped by what is no shard.
    """
    shard, number = F.col("key")[0], F.col("key")[1]
    listed = F.when(shard.isin(list(shards)), shard)
    named = F.struct(listed, F.length(number), number, F.lit(None), F.lit(None))
    kind = by_key.schema["place"].dataType
    return by_key.withColumn("place", F.coalesce("place", named.cast(kind)))


def _marks(keys: int) -> dict[str, Column]:
    """Return what else is counted, by the names of the columns.

    The first is the number of records with the key of another record. Two for each key follow: the numbers of
    records and of rows of which it is null.
    """
    rows = sum((F.col(name) for name in _COUNTS_OF_ROWS), F.lit(0))
    shared = F.when(F.col("records") > 1, F.col("records")).otherwise(0)
    return {"shared": shared} | {
        f"null_{name}_{number}": F.when(F.col("key")[number].isNull(), count).otherwise(0)
        for number in range(keys)
        for name, count in (("records", F.col("records")), ("rows", rows))
    }


def _by_difference(by_key: DataFrame, marks: dict[str, Column]) -> DataFrame:
    """Return one row for each key that differs, and one for all others of a shard."""
    differs = sum((F.col(kind) for kind in KINDS), F.lit(0)) > 0
    number = F.struct("place.digits", "place.sequence_number")
    of_record = F.when(F.col("records") > 0, number)
    rows = by_key.select(
        F.col("place.shard_id").alias("shard"),
        F.when(differs, F.col("key")).alias("key"),
        F.when(differs, F.col("place")).alias("place"),
        *_COUNTS,
        *(count.alias(name) for name, count in marks.items()),
        of_record.alias("number"),
    )
    return rows.groupBy("shard", "key", "place").agg(
        *(F.sum(name).alias(name) for name in (*_COUNTS, *marks)),
        F.min("number").alias("first"),
        F.max("number").alias("last"),
    )


def _without_rows_outside(found: DataFrame) -> DataFrame:
    """Return the same, without the rows of records before the first one of the range or after the last.

    All records of a shard that is not listed have expired.
    """
    ends = found.groupBy("shard").agg(F.min("first").alias("lowest"), F.max("last").alias("highest"))
    number = F.struct("place.digits", "place.sequence_number")
    is_number = F.col("place.sequence_number").rlike("^[0-9]+$")
    is_inside = (number >= F.col("lowest")) & (number <= F.col("highest"))
    is_outside = is_number & F.col("key")[0].isNotNull() & ~F.coalesce(is_inside, F.lit(False))
    outside = F.when(is_outside, F.col("extra")).otherwise(0)
    return (
        found.drop("first", "last")
        .join(F.broadcast(ends), "shard", "left")
        .withColumn("outside", F.col("outside") + outside)
        .withColumn("extra", F.col("extra") - outside)
    )


def _result(found: DataFrame, marks: Sequence[str]) -> Differences:
    """Return the counts, without examples."""
    by_shard = found.groupBy("shard").agg(*(F.sum(name).alias(name) for name in (*_COUNTS, *marks)))
    rows = by_shard.collect()
    shared, *nulls = (sum(row[name] for row in rows) for name in marks)
    return Differences(
        {row["shard"]: Counts(*(row[name] for name in _COUNTS)) for row in rows},
        [Nulls(*pair) for pair in zip(nulls[::2], nulls[1::2], strict=True)],
        shared,
    )


def _examples(found: DataFrame, kind: str, limit: int) -> Iterator[Example]:
    arrival = F.date_format("place.approximate_arrival_timestamp", "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'")
    selected = found.where(F.col(kind) > 0).select(
        "shard", "place.*", "key", F.col(kind).alias("count"), arrival.alias("arrival")
    )
    order = ("shard_id", "digits", "sequence_number", "sub_sequence_number", "key")
    for row in selected.orderBy(*order).limit(limit).collect():
        yield Example(
            kind,
            row["shard"],
            row["sequence_number"],
            row["sub_sequence_number"],
            row["arrival"],
            row["key"],
            row["count"],
        )
