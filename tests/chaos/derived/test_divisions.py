"""Property: a table with a key is the same however the history of its source is divided into steps.

Each history has records of one shape, see `shapes`: events, or changes of a database, of which some arrive
late and some move a key. Deletions are remembered in every second history, so that older changes after them
insert no key. Some changes do not know one of their values. Some records and documents cannot be decoded, and
for some an expression fails: they are kept. Runs of other definitions or owners, which are refused, change
nothing, and settings that may change do not change what was consumed.

`DERIVED_HISTORIES=200 pytest tests/chaos/derived/test_divisions.py` executes more histories.
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from chaos.derived.shapes import SHAPES, Bad, Change
from kinesis_assets.dagster.derived.typed_rows import TypedRows
from kinesis_assets.dagster.settings.table_settings import TableSettings
from kinesis_assets.derive.continuous import ContinuousDerivations
from kinesis_assets.derive.derivation import Derivation, Rollup, Upsert
from kinesis_assets.derive.derived_source import open_source
from kinesis_assets.derive.policy import MAX_BYTES, OnDeleted
from kinesis_assets.derive.rebuild import rebuild
from kinesis_assets.errors import TableOfAnotherSource, TableUnsuitable
from support.derived import DerivedBench, maintain_derived, maintain_table
from support.formats import derived_at, source_format
from support.timing import WRITING

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from chaos.derived.shapes import Shape
    from support.bench import Bench

pytestmark = [pytest.mark.any_format, pytest.mark.thorough]

HISTORIES = int(os.environ.get("DERIVED_HISTORIES", "1"))
STEPS_OF_A_HISTORY = 8

DIVISIONS = {"in any steps": 1, "in one step": MAX_BYTES, "a commit a step": 1, "rebuilt": MAX_BYTES}
"""The size of the last steps of each table, in bytes."""

OWNER = "newest"

REFUSED: list[tuple[type[Exception], dict[str, Any]]] = [
    (TableOfAnotherSource, {"owner": "another"}),
    (TableUnsuitable, {"mode": None}),
    (TableUnsuitable, {"mode": Upsert(("key", "number"), ("number",))}),
    (TableUnsuitable, {"mode": Rollup(("key",))}),
]
"""What makes a run another asset's, or one with another definition, and its error."""


def typed(shape: Shape, where: str | None = None) -> tuple[Upsert, dict[str, Any]]:
    """Return how rows replace others in a table of the changes, and the fields of its derivation."""
    settings = TableSettings(
        name=OWNER,
        source="events",
        table=OWNER,
        schema=shape.schema,
        where=where,
        key=["key"],
        **shape.settings,
    )
    rows = TypedRows(settings, shape.schema)
    mode = Upsert(tuple(settings.key), tuple(settings.order_by), settings.delete_where)
    return mode, {"transform": rows.of_table, "careful": partial(rows.of_table, is_careful=True)}


@dataclass
class History:
    """A stream of changes of few keys, in any shard, and a table for each division into steps."""

    spark: SparkSession
    bench: Bench
    folder: Path
    chance: random.Random
    shape: Shape
    deleted_for: timedelta | None
    tables: dict[str, DerivedBench] = field(default_factory=dict)

    def __post_init__(self) -> None:
        mode, self.fields = typed(self.shape)
        self.mode = replace(mode, deleted_for=self.deleted_for)

    def table(self, name: str) -> DerivedBench:
        """Return a table of the stream's changes."""
        if name not in self.tables:
            table = derived_at(str(self.folder / name), WRITING)
            derivation = Derivation(
                self.bench.table.uri,
                mode=self.mode,
                owner=OWNER,
                source_format=source_format(self.bench.table),
                **self.fields,
            )
            self.tables[name] = DerivedBench(self.spark, table, derivation)
        return self.tables[name]

    def land(self) -> None:
        """Put records at any place of the hash range, and read them in one run."""
        for _ in range(self.chance.randrange(1, self.shape.records)):
            self.bench.put(self.shape.record(), part=self.chance.random())
        assert not self.bench.run().errors

    def split(self) -> None:
        closed = {parent for shard in self.bench.client.list_shards() for parent in shard.parents}
        self.bench.split(self.chance.choice([each for each in self.bench.shard_ids if each not in closed]))

    def maintain(self) -> None:
        """Compact the raw table and those that exist."""
        maintain_table(self.bench)
        for each in self.tables.values():
            if each.exists:
                maintain_derived(each)

    def start_again(self) -> None:
        """Rebuild a table."""
        derived = self.table("rebuilt")
        derived.run()
        source = open_source(derived.derivation.source, format=derived.derivation.source_format)
        definition = replace(derived.derivation, owner=OWNER).definition
        rebuild(derived.table, source, definition, (), by="ann", apply=True)

    def consume_some(self) -> None:
        """Consume what there is, in steps of any size, with settings that may be others than before.

        They concern none of the changes.
        """
        _, elsewhere = typed(self.shape, where="shard_id <> 'another'")
        other = {"mode": replace(self.mode, delete_where=f"{self.mode.delete_where} AND key >= 0")}
        changes = self.chance.choice(
            [{}, *({"on_deleted": policy} for policy in OnDeleted), elsewhere, other]
        )
        self.table("in any steps").run(max_bytes=self.chance.choice([1, 2000, MAX_BYTES]), **changes)

    def be_refused(self) -> None:
        """Run another asset on a table, or its own one with another key or kind.

        The table of the continuous run may be written meanwhile.
        """
        others = [each for name, each in self.tables.items() if name != "continuous"]
        for derived in (each for each in others if each.exists):
            before = derived.table.snapshot().version
            error, changes = self.chance.choice(REFUSED)
            with pytest.raises(error):
                derived.run(**changes)
            assert derived.table.snapshot().version == before

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
    def expected(self) -> list[tuple[Any, ...]]:
        """The rows if changes are taken one after the other: key, number and note, or a bad document."""
        columns = ("batch_id", "sequence_number", "data")
        records = [tuple(row.values()) for row in self.bench.arrow(*columns).to_pylist()]
        found: dict[int, Change] = {}
        bad: list[tuple[Any, ...]] = []
        for _, _, data in sorted(records, key=lambda row: (row[0], int(row[1]))):
            for each in self.shape.taken(data):
                if isinstance(each, Bad):
                    bad.append((None, None, None, each.document, each.data))
                else:
                    self._take(each, found)
        good = [(key, each.number, each.note, None, None) for key, each in found.items() if not each.is_gone]
        return sorted([*good, *bad], key=repr)

    def _take(self, change: Change, found: dict[int, Change]) -> None:
        before = found.get(change.key)
        if before is not None and _version(before) > _version(change):
            return
        note = change.note
        if not change.knows_note:
            note = None if before is None or before.is_gone else before.note
        found[change.key] = replace(change, note=note)
        if change.is_gone and self.deleted_for is None:
            del found[change.key]


def _version(change: Change) -> int:
    return -1 if change.at is None else change.at


def rows_of(table: DerivedBench) -> list[tuple[Any, ...]]:
    """Return the rows of a table, as in `History.expected`."""
    columns = ("key", "number", "note", "document_number", "data")
    return sorted((tuple(row.get(name) for name in columns) for row in table.rows.to_pylist()), key=repr)


@pytest.fixture
def history(spark: SparkSession, bench: Bench, tmp_path: Path, shape: str, seed: int) -> History:
    """A history whose stream has changes already."""
    bench.create()
    changes, chance = SHAPES[shape](random.Random(seed)), random.Random(seed)
    remembers = (seed + [*SHAPES].index(shape)) % 2
    deleted_for = timedelta(days=7) if remembers else None
    history = History(spark, bench, tmp_path, chance, changes, deleted_for)
    history.land()
    return history


@pytest.mark.parametrize("seed", range(HISTORIES))
@pytest.mark.parametrize("shape", SHAPES)
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
    found = {name: rows_of(table) for name, table in history.tables.items()}
    assert found == dict.fromkeys(found, history.expected)
