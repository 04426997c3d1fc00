"""`spark.read.format("kinesis")`: a closed range of a stream as a DataFrame.

Spark calls a source's `read` for every action, and sometimes twice within one. So `until` is required: the
range must have a fixed end, and reading it again must return the same rows.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType, TimestampType

from kinesis_assets.errors import InvalidInput
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.listing_retries import list_shards
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.reading.range import Bounds, ShardRange
from kinesis_assets.kinesis.reading.reading import ShardReading
from kinesis_assets.kinesis.records.records import RECORD_SCHEMA, record_batch
from kinesis_assets.kinesis.role import check_role
from kinesis_assets.kinesis.role_credentials import role_for
from kinesis_assets.kinesis.settings import ClientSettings
from kinesis_assets.kinesis.stream import CLOCK_STEP, StreamAddress
from kinesis_assets.spark.pyspark_internals import require_spark_4

try:
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
except ImportError:
    require_spark_4("the data source kinesis")
    raise

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kinesis_assets.kinesis.role import AssumedRole

TIP_GRACE = timedelta(seconds=2)
"""A shard counts as read up to `until` only after a response from this long after it; records may arrive
late."""

_TYPES = {
    pa.string(): StringType(),
    pa.int64(): LongType(),
    pa.binary(): BinaryType(),
    pa.timestamp("us", tz="UTC"): TimestampType(),
}
"""The Spark types of the columns, by their Arrow types."""

_ROLE = ("role_arn", "external_id", "session_name")
_OPTIONS = {"stream", "until", "start", "shard_ids", "region_name", "endpoint_url", "profile_name", *_ROLE}


class KinesisDataSource(DataSource):
    """The "kinesis" data source. Register it with `spark.dataSource.register(KinesisDataSource)`.

    Options:
        stream: The stream's name or its ARN. Required.
        until: RFC 3339 time, not in the future. Records that arrived before it are read. Required.
        start: A position in the format of `Position.parse`; a sequence number requires exactly one shard id.
            The default is TRIM_HORIZON, which moves forward as records expire. LATEST is refused, because it
            has no fixed meaning.
        shard_ids: Comma-separated shard ids; all listed shards by default.
        region_name, endpoint_url, profile_name: As in boto3; by default the SDK's own settings.
        role_arn, external_id, session_name: The role that reads the stream; by default none is assumed.

    The columns are `RECORD_SCHEMA`. Rows of different shards are in no particular order.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "kinesis"

    def schema(self) -> StructType:
        """Return the columns of `RECORD_SCHEMA`."""
        return StructType(
            [StructField(field.name, _TYPES[field.type], field.nullable) for field in RECORD_SCHEMA]
        )

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of the range that the options specify. Raises `InvalidInput`."""
        del schema  # it is always that of `schema()`
        return _Reader({name.lower(): value for name, value in self.options.items()})


@dataclass
class _ShardPartition(InputPartition):
    range: ShardRange


class _Reader(DataSourceReader):
    def __init__(self, options: dict[str, str]) -> None:
        if unknown := sorted(options.keys() - _OPTIONS):
            raise InvalidInput(
                f"unknown option {', '.join(unknown)}; known are {', '.join(sorted(_OPTIONS))}"
            )
        if missing := [name for name in ("stream", "until") if name not in options]:
            raise InvalidInput(
                f"option {', '.join(missing)} is missing: a range needs a stream and a fixed end, "
                'as in .option("stream", "orders").option("until", "2026-01-31T12:00:00Z")'
            )
        self._stream = options["stream"]
        self._until = _time(options["until"])
        self._start = Position.parse(options.get("start", "TRIM_HORIZON"))
        named = [name.strip() for name in options.get("shard_ids", "").split(",") if name.strip()]
        self._shard_ids = list(dict.fromkeys(named))
        if self._start.kind is PositionKind.LATEST:
            raise InvalidInput("start LATEST has no fixed meaning in a closed range; use a time")
        if self._start.timestamp is not None and self._start.timestamp >= self._until:
            raise InvalidInput(f"start {self._start} is not before until {self._until.isoformat()}")
        if self._start.sequence_number is not None and len(self._shard_ids) != 1:
            raise InvalidInput(f"start {self._start} applies to one shard; specify it with shard_ids")
        self._settings = ClientSettings(
            options.get("region_name"),
            options.get("endpoint_url"),
            options.get("profile_name"),
            role=_role(options),
        )

    def partitions(self) -> Sequence[InputPartition]:
        """Return one partition for each shard."""
        client = StreamClient(self._stream, self._settings)
        listing = list_shards(client)
        now = listing.summary.service_time
        if self._until > now + CLOCK_STEP:
            raise InvalidInput(
                f"until {self._until.isoformat()} is in the future; the stream's time is {now.isoformat()}"
            )
        listed = {shard.shard_id: shard for shard in listing.shards}
        if unknown := sorted(set(self._shard_ids) - listed.keys()):
            raise InvalidInput(f"stream {self._stream} has no shard {', '.join(unknown)}")
        return [
            _ShardPartition(
                ShardRange(
                    shard_id=shard_id,
                    start=self._start,
                    bounds=Bounds(until=self._until),
                    hash_range=None,  # the mode in which the records arrived is unknown
                    closed=listed[shard_id].closed,
                    tip_not_before=self._until + TIP_GRACE,
                )
            )
            for shard_id in self._shard_ids or listed
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield a shard's records, one batch for each page."""
        assert isinstance(partition, _ShardPartition)  # noqa: S101  # Spark passes the objects of `partitions`
        client = StreamClient(self._stream, self._settings, attempts=1)  # the reader retries itself
        for records in ShardReading(client, partition.range):
            yield record_batch(client.stream, partition.range.shard_id, records)


def _role(options: Mapping[str, str]) -> AssumedRole | None:
    arn, external_id, session_name = map(options.get, _ROLE)
    check_role(arn, external_id, session_name)
    if arn is None:
        return None
    return role_for(
        StreamAddress.parse(options["stream"]),
        arn,
        external_id=external_id,
        session_name=session_name,
        profile_name=options.get("profile_name"),
        region_name=options.get("region_name"),
    )


def _time(text: str) -> datetime:
    with suppress(ValueError, OverflowError):
        if (time := datetime.fromisoformat(text)).tzinfo is not None:
            return time.astimezone(UTC)
    raise InvalidInput(f"until {text!r} is not a time with an offset, such as 2026-01-31T12:00:00Z")
