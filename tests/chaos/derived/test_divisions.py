"""Property: a table with a key is the same however the history of its source is divided into steps.

Deletions are remembered in every second history, so that older events after them insert no key. Some events
do not know one of their values. Some records cannot be decoded, and for some an expression fails: they are
kept. Runs of other definitions or
owners, which are refused, change nothing, and settings that may change do not change what was consumed.

`DERIVED_HISTORIES=200 pytest tests/chaos/derived/test_divisions.py` executes more histories.
"""

from __future__ import annotations

import json
import os
import random
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from kinesis_assets.dagster.derived.typed_rows import TypedRows
from kinesis_assets.dagster.settings.table_settings import TableSettings
from kinesis_assets.derive.continuous import ContinuousDerivations
from kinesis_assets.derive.derivation import Derivation, Rollup, Upsert
from kinesis_assets.derive.derived_table import DerivedTable
from kinesis_assets.derive.policy import MAX_BYTES, OnDeleted
from kinesis_assets.derive.rebuild import rebuild
from kinesis_assets.derive.source_tables import open_source
from kinesis_assets.errors import TableOfAnotherSource, TableUnsuitable
from support.derived import DerivedBench, maintain_derived, maintain_table
from support.timing import WRITING

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from support.bench import Bench

HISTORIES = int(os.environ.get("DERIVED_HISTORIES", "2"))
STEPS_OF_A_HISTORY = 8
KEYS, TIMES = 6, 3

DIVISIONS = {"in any steps": 1, "in one step": MAX_BYTES, "a commit a step": 1, "rebuilt": MAX_BYTES}
"""The size of the last steps of each table, in bytes."""

SCHEMA = (
    "events ARRAY<STRUCT<key: INT, at: INT, gone: BOOLEAN, number: INT, note: STRING, "
    "_unchanged: ARRAY<STRING>>>, day STRING"
)
NEWEST = Upsert(key=("key",), order_by=("at",), delete_where="gone")
OWNER = "newest"

REFUSED: list[tuple[type[Exception], dict[str, Any]]] = [
    (TableOfAnotherSource, {"owner": "another"}),
    (TableUnsuitable, {"mode": None}),
    (TableUnsuitable, {"mode": Upsert(("key", "number"), ("at",), "gone")}),
    (TableUnsuitable, {"mode": Rollup(("key",))}),
]
"""What makes a run another asset's, or one with another definition, and its error."""


def typed(where: str | None = None) -> dict[str, Any]:
    """Return the fields of a derivation that decodes the events. Those of one record may have one key."""
    settings = TableSettings(
        name=OWNER,
        source="events",
        table=OWNER,
        format="json",
        schema="events.avsc",
        select=["inline(events)", "CAST(day AS DATE) AS day"],
        where=where,
        key=NEWEST.key,
        order_by=NEWEST.order_by,
    )
    rows = TypedRows(settings, SCHEMA)
    return {"transform": rows.of_table, "careful": partial(rows.of_table, is_careful=True)}


CHANGES: list[dict[str, Any]] = [
    {},
    *({"on_deleted": policy} for policy in OnDeleted),
    typed(where="day <> 'another'"),
]
"""Changes of the settings that a table accepts, and which concern none of these events."""

INVALID_DAY = "0000-00-00"


@dataclass
class History:
    """A stream of events of few keys at few times, in any shard, and a table for each division into steps."""

    spark: SparkSession
    bench: Bench
    folder: Path
    chance: random.Random
    mode: Upsert
    number: int = 0
    tables: dict[str, DerivedBench] = field(default_factory=dict)

    def table(self, name: str) -> DerivedBench:
        """Return a table of the stream's events."""
        if name not in self.tables:
            table = DerivedTable(str(self.folder / name), WRITING)
            self.tables[name] = DerivedBench(
                self.spark, table, Derivation(self.bench.table.uri, mode=self.mode, owner=OWNER, **typed())
            )
        return self.tables[name]

    def land(self) -> None:
        """Put events at any place of the hash range, and read them in one run."""
        for _ in range(self.chance.randrange(1, 12)):
            self.bench.put(self._record(), part=self.chance.random())
        assert not self.bench.run().errors

    def _record(self) -> bytes:
        if self.chance.random() < 0.02:
            return b"no events"
        day = INVALID_DAY if self.chance.random() < 0.02 else "2026-01-01"
        events = [self._event() for _ in range(self.chance.choice([0, 1, 1, 1, 3]))]
        return json.dumps({"events": events, "day": day}).encode()

    def _event(self) -> dict[str, object]:
        self.number += 1
        note = self.chance.choice([None, f"note {self.number}"])
        return {
            "key": self.chance.randrange(KEYS),
            "at": self.chance.choice([None, *range(TIMES)]),
            "gone": self.chance.random() < 0.3,
            "number": self.number,
            "note": note,
            "_unchanged": ["note"] if note is None else self.chance.choice([None, []]),
        }

    def split(self) -> None:
        closed = {parent for shard in self.bench.client.list_shards() for parent in shard.parents}
        self.bench.split(self.chance.choice([each for each in self.bench.shard_ids if each not in closed]))

    def maintain(self) -> None:
        """Compact the raw table and those that exist."""
        maintain_table(self.bench)
        for each in self.tables.values():
            if DeltaTable.is_deltatable(each.table.uri):
                maintain_derived(each)

    def start_again(self) -> None:
        """Rebuild a table."""
        derived = self.table("rebuilt")
        derived.run()
        source = open_source(derived.derivation.source)
        definition = replace(derived.derivation, owner=OWNER).definition
        rebuild(derived.table, source, definition, (), by="ann", apply=True)

    def consume_some(self) -> None:
        """Consume what there is, in steps of any size, with settings that may be others than before."""
        other = {"mode": replace(self.mode, delete_where="gone AND number > 0")}
        changes = self.chance.choice([*CHANGES, other])
        self.table("in any steps").run(max_bytes=self.chance.choice([1, 2000, MAX_BYTES]), **changes)

    def be_refused(self) -> None:
        """Run another asset on a table, or its own one with another key or kind."""
        written = [each for each in self.tables.values() if DeltaTable.is_deltatable(each.table.uri)]
        for derived in written:
            before = derived.table.snapshot().delta.version()
            error, changes = self.chance.choice(REFUSED)
            with pytest.raises(error):
                derived.run(**changes)
            assert derived.table.snapshot().delta.version() == before

    def step(self) -> None:
        """Execute a random step."""
        steps = {
            self.land: 6,
            self.consume_some: 4,
            self.be_refused: 2,
            self.split: 1,
            self.maintain: 1,
            self.start_again: 1,
        }
        (step,) = self.chance.choices(list(steps), list(steps.values()))
        print(step.__name__)  # noqa: T201  # pytest shows it where it fails
        step()

    @property
    def expected(self) -> list[tuple[int | None, int | None, str | None, bytes | None]]:
        """The rows if events are taken one after the other: key, number and note, or a bad record's data."""
        columns = ("batch_id", "sequence_number", "data")
        rows = [tuple(row.values()) for row in self.bench.arrow(*columns).to_pylist()]
        found: dict[int, tuple[int, int | None, str | None]] = {}
        bad: list[tuple[int | None, int | None, str | None, bytes | None]] = []
        for _, _, data in sorted(rows, key=lambda row: (row[0], int(row[1]))):
            record = json.loads(data) if data.startswith(b"{") else None
            if record is None or (record["events"] and record["day"] == INVALID_DAY):
                bad.append((None, None, None, data))
                continue
            for event in record["events"]:
                key, at = event["key"], -1 if event["at"] is None else event["at"]
                if key in found and found[key][0] > at:
                    continue
                if event["gone"]:
                    found[key] = (at, None, None)
                    if self.mode.deleted_for is None:
                        del found[key]
                else:
                    before = found[key][2] if key in found else None
                    note = before if event["_unchanged"] else event["note"]
                    found[key] = (at, event["number"], note)
        good = [(key, *values, None) for key, (_, *values) in found.items() if values[0] is not None]
        return sorted([*good, *bad], key=repr)


@pytest.fixture
def history(spark: SparkSession, bench: Bench, tmp_path: Path, seed: int) -> History:
    """A history whose stream has events already."""
    bench.create()
    mode = NEWEST if seed % 2 else replace(NEWEST, deleted_for=timedelta(days=7))
    history = History(spark, bench, tmp_path, random.Random(seed), mode)
    history.land()
    return history


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_a_table_is_the_same_in_any_division_of_its_source_into_steps(history: History) -> None:
    failures: list[Exception] = []
    with ContinuousDerivations(
        {"continuous": history.table("continuous").steps},
        report=lambda *_: None,
        report_failure=lambda _, error: failures.append(error),
    ) as continuous:
        for _ in range(STEPS_OF_A_HISTORY):
            history.step()
            continuous.consume()
    assert failures == []
    history.start_again()
    for name, max_bytes in DIVISIONS.items():
        history.table(name).run(max_bytes=max_bytes)
    found = {name: table.values("key", "number", "note", "data") for name, table in history.tables.items()}
    assert found == dict.fromkeys(found, history.expected)
