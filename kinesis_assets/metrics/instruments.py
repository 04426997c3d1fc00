"""The instruments: what is measured, in which unit, and with which attributes.

Attributes are those of OpenTelemetry's semantic conventions, where there is one. Units are codes of UCUM.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

STREAM = "aws.kinesis.stream_name"
SHARD = "messaging.destination.partition.id"
TABLE = "kinesis_assets.table"
ERROR = "error.type"

COMMIT_SECONDS = (0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
"""The bounds of the histogram of commits."""


class Kind(StrEnum):
    """The kind of an instrument."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Instrument:
    """One instrument.

    Attributes:
        unit: Its unit, as a code of UCUM.
        attributes: The attributes that its measurements may have.
    """

    name: str
    kind: Kind
    unit: str
    description: str
    attributes: tuple[str, ...]
    bounds: tuple[float, ...] | None = None


LAG = Instrument(
    "kinesis_assets.lag",
    Kind.GAUGE,
    "s",
    "Age of the oldest unread record of the shard, at most; 0 at its tip",
    (STREAM, SHARD),
)
TIME_TO_LOSS = Instrument(
    "kinesis_assets.time_to_loss",
    Kind.GAUGE,
    "s",
    "Time until the first unread record of the shard may expire",
    (STREAM, SHARD),
)
ROWS = Instrument(
    "kinesis_assets.rows", Kind.COUNTER, "{row}", "Rows committed to the raw table", (STREAM, SHARD)
)
PAYLOAD = Instrument(
    "kinesis_assets.payload", Kind.COUNTER, "By", "Payload bytes of these rows", (STREAM, SHARD)
)
BAD_RECORDS = Instrument(
    "kinesis_assets.bad_records",
    Kind.COUNTER,
    "{record}",
    "How many of these rows are damaged records",
    (STREAM, SHARD),
)
THROTTLES = Instrument(
    "kinesis_assets.throttles",
    Kind.COUNTER,
    "{call}",
    "Calls that the service throttled while a run read the shard",
    (STREAM, SHARD),
)
CONFLICTS = Instrument(
    "kinesis_assets.conflicts",
    Kind.COUNTER,
    "{conflict}",
    "Times that another run had moved the shard's position first",
    (STREAM, SHARD),
)
COMMIT_DURATION = Instrument(
    "kinesis_assets.commit.duration",
    Kind.HISTOGRAM,
    "s",
    "Time from the first try of a commit until its outcome was known",
    (STREAM, TABLE, ERROR),
    COMMIT_SECONDS,
)
LEASE_TABLE_LAG = Instrument(
    "kinesis_assets.lease_table.lag",
    Kind.GAUGE,
    "s",
    "Time since the first update of the lease table that failed, if none has succeeded since; 0 otherwise",
    (STREAM,),
)
CATALOG_LAG = Instrument(
    "kinesis_assets.catalog.lag",
    Kind.GAUGE,
    "s",
    "Time since the first registration of the table that failed, if none has succeeded since; 0 otherwise",
    (STREAM, TABLE),
)
DERIVED_ROWS = Instrument(
    "kinesis_assets.derived.rows", Kind.COUNTER, "{row}", "Rows committed to a derived table", (TABLE,)
)
DERIVED_BAD_RECORDS = Instrument(
    "kinesis_assets.derived.bad_records",
    Kind.COUNTER,
    "{record}",
    "Records that a derived table could not decode",
    (TABLE,),
)
DERIVED_REDRIVEN_RECORDS = Instrument(
    "kinesis_assets.derived.redriven_records",
    Kind.COUNTER,
    "{record}",
    "Bad records of a derived table that a redrive decoded",
    (TABLE,),
)

INSTRUMENTS = (
    LAG,
    TIME_TO_LOSS,
    ROWS,
    PAYLOAD,
    BAD_RECORDS,
    THROTTLES,
    CONFLICTS,
    COMMIT_DURATION,
    LEASE_TABLE_LAG,
    CATALOG_LAG,
    DERIVED_ROWS,
    DERIVED_BAD_RECORDS,
    DERIVED_REDRIVEN_RECORDS,
)
