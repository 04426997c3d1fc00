"""Events of few keys with rising numbers, and what tables that are derived from them must contain."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812  # the usual name

from kinesis_assets.dagster.derived.typed_rows import TypedRows
from kinesis_assets.dagster.settings.table_settings import TableSettings
from kinesis_assets.derive.data_files import ERRORS_FOLDER
from kinesis_assets.derive.derivation import Derivation, Rollup, Upsert
from kinesis_assets.derive.derived_source import open_source
from kinesis_assets.derive.policy import OnDeleted
from kinesis_assets.derive.rebuild import rebuild
from kinesis_assets.derive.redrive import redrive
from kinesis_assets.errors import SourceCommitsMissing, SourceRowsDeleted
from support.derived import DerivedBench
from support.formats import FORMAT, derived_at, source_format
from support.timing import WRITING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from kinesis_assets.derive.commit_entry import DerivedCommit
    from kinesis_assets.derive.derivation import CheckedRows
    from kinesis_assets.derive.redrive import Redrive
    from kinesis_assets.errors import TableError
    from support.bench import Bench

Row = tuple[str, int, int, int]
"""Sequence number, batch id in the raw table, key and number of an event."""


PARTS = 3
"""The number of parts. It divides the hours of a day, so that each number is in the part of its hour."""


PACKINGS: dict[str, dict[str, Any]] = {
    "record": {},
    "lines": {"split": "lines", "only": {"kind": "event"}},
    "array": {"split": "array", "only": {"kind": "event"}},
}
"""How events are in records, and the settings of the table that types them: each is a record; or the first
document of one, before another event, a document of another kind, and a damaged one."""

TYPED_DOCUMENTS, DAMAGED_DOCUMENT = (0, 1), 3
"""The numbers of these documents."""


def decode(rows: DataFrame) -> DataFrame:
    """Return the events of rows of the raw table, the first of each record, each in one of a few parts."""
    document = F.regexp_extract(F.col("data").cast("string"), r"\{[^}]*\}", 0)
    event = F.from_json(document, "key INT, number INT")
    number = event["number"]
    return rows.select(
        "sequence_number",
        "batch_id",
        event["key"].alias("key"),
        number.alias("number"),
        (F.hour(F.timestamp_seconds(number * 3600)) % PARTS).alias("part"),
    )


WIDTHS = 3
"""The number of versions of the columns of events, each wider than the one before."""

_WIDE_DECIMAL = "decimal(12,1)" if FORMAT == "delta" else "decimal(12,0)"
"""In Iceberg, decimals keep their scale."""


def widened(rows: DataFrame, width: int) -> DataFrame:
    """Return events with the columns of a version: wider numbers, and structs with further fields."""
    number = F.col("number").cast(("int", "long", "long")[width])
    fields = [F.col("key").alias("key"), number.alias("number"), F.lit("x").alias("note")][: width + 1]
    exact = F.col("number").cast(("decimal(10,0)", _WIDE_DECIMAL, _WIDE_DECIMAL)[width])
    event = F.struct(*fields)
    return rows.withColumns(
        {"number": number, "exact": exact, "event": event, "by_name": F.create_map(F.lit("event"), event)}
    )


def first_event(record: bytes) -> dict[str, Any]:
    """Return the first event of a record."""
    text = record.decode()
    event, _ = json.JSONDecoder().raw_decode(text, text.index("{"))
    return dict(event)


def copy(rows: DataFrame) -> DataFrame:
    """Return the events of a derived table."""
    return rows.drop("_batch_id")


def per_part(rows: DataFrame) -> DataFrame:
    """Return the number of events in each part."""
    return rows.groupBy("part").agg(F.count("*").alias("events"))


class OperatedTable(DerivedBench):
    """A derived table whose operator starts it again if a run refuses to, because rows would be lost."""

    restarts_for: tuple[type[TableError], ...] = (SourceRowsDeleted, SourceCommitsMissing)

    def steps(self, **changes: Any) -> Iterator[DerivedCommit]:
        try:
            yield from super().steps(**changes)
        except self.restarts_for:
            self.start_again()
            yield from super().steps(**changes)

    def start_again(self) -> None:
        if self.exists:
            source = open_source(self.derivation.source, format=self.derivation.source_format)
            rebuild(self.table, source, self.derivation.definition, (), by="ann", apply=True)


@dataclass
class OperatedErrors(OperatedTable):
    """A table of errors, whose operator starts the table that has set them apart again, too."""

    typed: OperatedTable

    def start_again(self) -> None:
        self.typed.start_again()
        self.typed.run()
        super().start_again()


@dataclass
class EventBench:
    """The stream's bench, and derived tables in a folder."""

    spark: SparkSession
    bench: Bench
    folder: Path
    packing: str = "record"

    def __post_init__(self) -> None:
        self._numbers = count()
        self.width = 0
        newest = Upsert(key=("key",), order_by=("number",))
        raw = Derivation(self.bench.table.uri, self._decode, source_format=source_format(self.bench.table))
        self.appended = self._derived("appended", raw)
        self.ignoring = self._derived("ignoring", raw, OnDeleted.IGNORE)
        self.newest = self._derived("newest", replace(raw, mode=newest))
        self.copied = self._derived("copied", Derivation(transform=copy, **self.appended.as_source))
        counts = Derivation(transform=per_part, mode=Rollup(("part",)), **self.newest.as_source)
        self.counted = self._derived("counted", counts)
        self.wrong, self.modulus = 0, 2
        self.typed = self._derived("typed", replace(raw, transform=self._typed))
        errors = derived_at(str(self.folder / "errors"), WRITING)
        separated = f"{self.typed.table.uri}/{ERRORS_FOLDER}"
        of_errors = Derivation(separated, self._of_errors, source_format=source_format(self.typed.table))
        self.errors = OperatedErrors(self.spark, errors, of_errors, self.typed)

    def _decode(self, rows: DataFrame) -> DataFrame:
        """Return the events with the present version of their columns."""
        return widened(decode(rows), self.width)

    @property
    def _typed_rows(self) -> TypedRows:
        """The table of the events, in which those are bad whose key has the remainder that is wrong now."""
        documents = ["document_number"] if PACKINGS[self.packing] else []
        settings = TableSettings(
            name="typed",
            source="events",
            table="typed",
            format="json",
            schema=f"key INT, number INT, remainder_{self.modulus}_{self.wrong} INT",
            select=["sequence_number", "key", "number", *documents],
            on_bad_record="separate",
            **PACKINGS[self.packing],
        )
        return TypedRows(settings, str(settings.schema_))

    def _typed(self, rows: DataFrame) -> CheckedRows:
        """Return the events with the present version of their columns, and separate the bad ones."""
        checked = self._typed_rows.of_table(rows)
        return replace(checked, rows=widened(checked.rows, self.width))

    def _of_errors(self, separate: DataFrame) -> CheckedRows:
        return self._typed_rows.of_errors(separate)

    def redrive(self) -> Redrive:
        """Decode the events again that were separated."""
        typed = self.typed
        return redrive(
            self.spark, typed.table, typed.derivation, errors=self.errors.table, by="ann", apply=True
        )

    def _derived(
        self, name: str, derivation: Derivation, on_deleted: OnDeleted = OnDeleted.REBUILD
    ) -> OperatedTable:
        table = derived_at(str(self.folder / name), WRITING)
        return OperatedTable(self.spark, table, replace(derivation, on_deleted=on_deleted))

    def put(self, keys: Iterable[int]) -> None:
        """Put an event for each key."""
        for key in keys:
            self.bench.put(self._record(key, next(self._numbers)), part=key / 10)

    def _record(self, key: int, number: int) -> bytes:
        event = _event(key, number)
        if self.packing == "record":
            return event
        damaged = b'{"key": "damaged", "kind": "event"}'
        documents = [event, _event(key + 1, number), b'{"key": "of another kind"}', damaged]
        return b"\n".join(documents) if self.packing == "lines" else b"[" + b", ".join(documents) + b"]"

    def land(self, *keys: int) -> None:
        """Put events, and read all that are in the stream."""
        self.put(keys)
        assert self.bench.run().errors == {}

    @property
    def in_source(self) -> Counter[Row]:
        """The events in the raw table."""
        rows = self.bench.arrow("sequence_number", "batch_id", "data").to_pylist()
        return Counter(
            (row["sequence_number"], row["batch_id"], event["key"], event["number"])
            for row in rows
            for event in [first_event(row["data"])]
        )


def _event(key: int, number: int) -> bytes:
    """Return an event. A field that is named after a remainder of its key has no number."""
    remainders = {f"remainder_{modulus}_{key % modulus}": "wrong" for modulus in (2, 3, 4)}
    return json.dumps({"key": key, "number": number, "kind": "event", **remainders}).encode()


def documents_of(derived: DerivedBench) -> Counter[tuple[str, int | None]]:
    """Return the sequence numbers of the events in a table, and the numbers of their documents."""
    return Counter((row["sequence_number"], row.get("document_number")) for row in derived.rows.to_pylist())


def rows_of(derived: DerivedBench) -> Counter[Row]:
    """Return the events in a derived table."""
    names = ["sequence_number", "batch_id", "key", "number"]
    columns = derived.rows.select(names).to_pydict()
    return Counter(zip(*(columns[name] for name in names), strict=True))


def newest_of(rows: Iterable[Row]) -> dict[int, int]:
    """Return the greatest number of each key."""
    found: dict[int, int] = {}
    for _, _, key, number in rows:
        found[key] = max(number, found.get(key, -1))
    return found


def assert_newest(derived: DerivedBench, rows: Iterable[Row]) -> None:
    """A table with a key has the newest event of each key once."""
    found = sorted((key, number) for _, _, key, number in rows_of(derived).elements())
    assert found == sorted(newest_of(rows).items())


def assert_counted(counted: DerivedBench, rows: Iterable[Row]) -> None:
    """A roll-up has the number of events in each part that has any."""
    assert dict(counted.values("part", "events")) == Counter(number % PARTS for _, _, _, number in rows)
