"""Property: after any history of a stream, its table and its derived tables, each row was consumed once.

In one history after the other, an event is a record, one of the lines of a record, or an element of an array.

`DERIVED_HISTORIES=200 pytest tests/chaos/derived/test_histories.py` executes more histories. Each prints its
steps, and its seed is its name.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from contextlib import nullcontext, suppress
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

import pytest
from deltalake.exceptions import DeltaError

from chaos.derived.events import (
    DAMAGED_DOCUMENT,
    PACKINGS,
    TYPED_DOCUMENTS,
    WIDTHS,
    OperatedTable,
    assert_counted,
    documents_of,
    newest_of,
    rows_of,
)
from chaos.derived.kill import MAINTENANCE, MOMENTS, REDRIVING, STEPS, die, interrupted, lose_response
from chaos.property.interceptor import Killed
from kinesis_assets.derive.policy import MAX_BYTES, Deletion
from kinesis_assets.errors import (
    CursorConflict,
    DataFileInvalid,
    InvalidInput,
    PositionsMissing,
    PositionsUnreadable,
    SeekRefused,
    SourceRowsMissing,
    TableRewritten,
    TableUnsuitable,
)
from kinesis_assets.table.maintenance.pruning import CHAIN_KEPT
from kinesis_assets.table.maintenance.retention import lower_floor
from support.derived import maintain_derived, maintain_table
from support.formats import compact, delete, rewrite_files

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chaos.derived.events import EventBench, Row
    from kinesis_assets.derive.policy import DeletedRows
    from support.derived import DerivedBench

pytestmark = pytest.mark.any_format

HISTORIES = int(os.environ.get("DERIVED_HISTORIES", "3"))
STEPS_OF_A_HISTORY = 14
KEYS = range(8)
_STARTS_AGAIN = (CursorConflict, *OperatedTable.restarts_for, TableRewritten, PositionsMissing)
"""Errors of a redrive of a table that has started again meanwhile, or is about to."""
RACING = ["write files", "verify file", "write entry", "commit request"]


class History:
    """A random history.

    Args:
        events: The stream and the tables.
        seed: Determines the history.
    """

    def __init__(self, events: EventBench, seed: int) -> None:
        self._events = events
        self._bench = events.bench
        self._chance, self._chance_apart = random.Random(seed), random.Random(seed)
        self._chance_wide = random.Random(seed)
        self._ever: set[Row] = set()
        self._rewound: set[Row] = set()
        self._brought_back: set[Row] = set()
        self._given_up: set[tuple[int, DeletedRows]] = set()
        self._expired = False
        self._days = 0.0
        self._tables = {
            "appended": events.appended,
            "newest": events.newest,
            "ignoring": events.ignoring,
            "copied": events.copied,
            "counted": events.counted,
            "typed": events.typed,
            "errors": events.errors,
        }
        self._upstream = {"copied": events.appended, "counted": events.newest}
        events.modulus = 3  # of the events in a record, others are bad from one schema to the next
        self._bench.set_retention(hours=8000)
        for _ in range(3):
            self.land()
        if self._chance.random() < 0.5:
            next(events.appended.steps(max_bytes=1))

    def step(self) -> None:
        """Execute a random step."""
        steps = {
            self.land: 4,
            self.derive: 3,
            self.derive_one_step: 3,
            self.die: 2,
            self.lose_response: 1,
            self.race: 1,
            self.compact_meanwhile: 2,
            self.rewrite_raw: 1,
            self.rewrite_derived: 1,
            self.maintain: 2,
            self.maintain_meanwhile: 2,
            self.die_in_maintenance: 1,
            self.derive_in_maintenance: 1,
            self.fall_behind: 1,
            self.seek: 1,
            self.expire: 1,
            self.replay: 1,
            self.restore: 2,
            self.lose: 2,
            self.lower_floor: 1,
            self.split: 1,
            self.change_time_zone: 2,
        }
        (step,) = self._chance.choices(list(steps), list(steps.values()))
        print(step.__name__)  # noqa: T201  # pytest shows it where it fails
        if self._chance_wide.random() < 0.3:  # sometimes back, as after a stale response of a registry
            self._events.width = self._chance_wide.randrange(WIDTHS)
            print(" ", "width", self._events.width)  # noqa: T201  # as above
        step()
        self._decide_apart()
        self._remember()

    def _remember(self) -> None:
        source = set(self._events.in_source)
        self._ever |= source
        self._brought_back |= self._rewound & source
        if self._events.ignoring.exists:
            ignoring = self._events.ignoring.table
            with suppress(PositionsUnreadable):  # old ones were pruned
                for commit in ignoring.entries.back_from(ignoring.snapshot().newest):
                    self._given_up |= {(commit.commit_id, each) for each in commit.given_up}

    # Steps

    def land(self) -> None:
        self._events.land(*self._chance.choices(KEYS, k=self._chance.randrange(5)))

    def derive(self) -> None:
        list(self._table().steps(max_bytes=self._chance.choice([1, MAX_BYTES])))

    def change_time_zone(self) -> None:
        """Change that of the session, which changes no row."""
        zone = self._chance.choice(["America/Los_Angeles", "Europe/Berlin", "UTC"])
        self._events.spark.conf.set("spark.sql.session.timeZone", zone)

    def _decide_apart(self) -> None:
        """Decode others of the events from now on; or decode some, or take over those that were separated."""
        typed, errors, chance = self._events.typed, self._events.errors, self._chance_apart
        if chance.random() < 0.3:
            self._change_schema()
        elif chance.random() < 0.7:
            derived = errors if chance.random() < 0.5 and typed.exists else typed
            at, nth = chance.choice(list(STEPS)), chance.choice([1, 2, 3])
            with interrupted("after", at, die, nth), suppress(Killed):
                derived.run(max_bytes=1)
        elif typed.exists:
            self._redrive()

    def _change_schema(self) -> None:
        self._events.wrong = (self._events.wrong + 1) % self._events.modulus

    def _redrive(self) -> None:
        """Decode those again that were separated. It may be killed, and a run may come in between."""
        chance, at = self._chance_apart, self._chance_apart.choice(list(REDRIVING))
        action = chance.choice([die, self._events.typed.run, self._events.errors.run])
        print("  redrive", at)  # noqa: T201  # as above
        with interrupted("before", at, action, chance.choice([1, 2, 3])), suppress(Killed, *_STARTS_AGAIN):
            self._events.redrive()

    def derive_one_step(self) -> None:
        next(self._table().steps(max_bytes=1), None)

    def die(self) -> None:
        derived, at = self._table(), self._chance.choice(list(STEPS))
        print(" ", derived.table.uri, at)  # noqa: T201  # as above
        with interrupted("after", at, die, self._chance.choice([1, 2])), suppress(Killed):
            derived.run(max_bytes=1)

    def lose_response(self) -> None:
        with interrupted(self._chance.choice(MOMENTS), "commit request", lose_response):
            self._table().run()

    def race(self) -> None:
        """Consume the same rows in another run between two steps."""
        derived, at = self._table(), self._chance.choice(RACING)
        print(" ", derived.table.uri, at)  # noqa: T201  # as above
        with interrupted("before", at, derived.run) as happened:
            try:
                derived.run()
            except CursorConflict:
                assert happened()

    def compact_meanwhile(self) -> None:
        """Rewrite the files of a table with a key between two steps of a run on it."""
        derived, at = self._events.newest, self._chance.choice(RACING)
        print(" ", derived.table.uri, at)  # noqa: T201  # as above
        derived.run()
        self.land()
        with interrupted("before", at, partial(compact, derived.table)):
            derived.run()

    def maintain(self) -> None:
        for derived in self._present():
            maintain_derived(derived, self._days)

    def maintain_meanwhile(self) -> None:
        """Maintain a table between two steps of a run on it, or on one that consumes it."""
        running, at = self._table(), self._chance.choice(list(STEPS))
        print(" ", running.table.uri, at)  # noqa: T201  # as above
        # A maintenance months later deletes the files that the run has written, which then commits nothing.
        in_months = suppress(DataFileInvalid) if self._days else nullcontext()
        with interrupted("before", at, self.maintain), in_months:
            running.run(max_bytes=1)

    def die_in_maintenance(self) -> None:
        at = self._chance.choice(list(MAINTENANCE))
        print(" ", at)  # noqa: T201  # as above
        with interrupted(self._chance.choice(MOMENTS), at, die), suppress(Killed):
            self.maintain()

    def derive_in_maintenance(self) -> None:
        """Run between two steps of a maintenance, also of the same table."""
        running, at = self._table(), self._chance.choice(list(MAINTENANCE))
        print(" ", running.table.uri, at)  # noqa: T201  # as above
        self.land()
        with interrupted("before", at, running.run):
            self.maintain()

    def fall_behind(self) -> None:
        """Let the entries of all commits become older than they are kept."""
        self._days = CHAIN_KEPT.days + 1.0

    def rewrite_raw(self) -> None:
        rewrite_files(self._bench.table)

    def rewrite_derived(self) -> None:
        derived = self._table()
        if derived.exists:
            rewrite_files(derived.table)

    def seek(self) -> None:
        before = set(self._events.in_source)
        try:
            self._bench.seek("TRIM_HORIZON")
        except SeekRefused:
            assert self._expired
        self._rewound |= before - set(self._events.in_source)

    def expire(self) -> None:
        self._bench.later(days=2)
        maintain_table(self._bench, retention_days=1)
        self._expired = True

    def replay(self) -> None:
        assert not self._bench.replay().errors

    def restore(self) -> None:
        """Restore an earlier version of the raw table, and recover from that."""
        if self._expired:  # rows would come back that no commit adds
            return
        newest = self._bench.version
        try:
            self._bench.restore(newest - self._chance.randrange(1, 4))
        except DeltaError:  # files of that version were deleted
            return
        # A replay's batch lacks its rows if they are back in the batch that had lost them.
        self._events.ignoring.restarts_for = (*OperatedTable.restarts_for, SourceRowsMissing)
        try:
            self._bench.adopt()
        except InvalidInput:  # that version had the same files
            return
        except TableUnsuitable:  # rows that a seek had deleted came back
            self._bench.restore(newest)
            self._bench.adopt()
        self.replay()

    def lose(self) -> None:
        """Delete rows of the raw table as another program may, and recover from that."""
        rows = self._bench.rows
        if not rows:
            return
        first = self._chance.choice(rows)["sequence_number"]
        delete(self._bench.table, f"sequence_number >= '{first}'")
        self.replay()
        with suppress(InvalidInput):  # it is refused only if the log lacks entries, as a restore may have
            self._bench.adopt()

    def lower_floor(self) -> None:
        """Add rows again that have expired."""
        amendment = self._bench.amendment
        if amendment is None or amendment.floor is None:
            return
        floor = amendment.floor - timedelta(days=self._chance.randrange(1, 5))
        lower_floor(self._bench.table, self._bench.positions.identity, floor, self._bench.now)
        self.replay()

    def split(self) -> None:
        closed = {parent for shard in self._bench.client.list_shards() for parent in shard.parents}
        (*_, shard_id) = [each for each in self._bench.shard_ids if each not in closed]
        self._bench.split(shard_id)

    def _table(self) -> DerivedBench:
        """Return a table whose source exists."""
        names = ["appended", "appended", "newest", "newest", "ignoring", "copied", "counted"]
        name = self._chance.choice(names)
        upstream = self._upstream.get(name)
        return self._tables[name] if upstream is None or upstream.exists else self._events.newest

    def _present(self) -> list[DerivedBench]:
        """Return the tables that exist."""
        return [each for each in self._tables.values() if each.exists]

    # The property

    def end(self) -> None:
        """Bring all tables up to date, and compare them."""
        self._events.land()
        for table in self._tables.values():
            table.run()
        self._change_schema()
        self._events.redrive()
        self._events.errors.run()
        self._remember()
        source, appended = self._events.in_source, rows_of(self._events.appended)
        assert set(Counter(number for number, *_ in appended.elements()).values()) <= {1}
        possible = self._ever - self._rewound | self._brought_back
        assert set(appended.values()) <= {1}
        # A restore may bring a row back in another batch than the one in which it was consumed.
        assert numbers_of(source) <= numbers_of(appended)
        assert set(appended) <= possible
        assert rows_of(self._events.copied) == appended
        newest = rows_of(self._events.newest)
        numbers = {key: number for _, _, key, number in newest}
        assert len(numbers) == newest.total()
        assert set(newest) <= possible
        expected = newest_of(source)
        if not self._expired:
            assert numbers_of(source) == numbers_of(appended)
            assert numbers == expected
        assert all(numbers[key] >= number for key, number in expected.items())
        assert_counted(self._events.counted, newest)
        self._compare_ignoring(source)
        self._compare_separate(source)
        assert [name for name, table in self._tables.items() if table.run()] == []

    def _compare_ignoring(self, source: Counter[Row]) -> None:
        """Only what a seek deleted was consumed twice, and what is missing was given up, and is recorded."""
        found = Counter(number for number, *_ in rows_of(self._events.ignoring).elements())
        assert {number for number, rows in found.items() if rows > 1} <= numbers_of(self._rewound)
        assert set(found) <= numbers_of(self._ever)
        batch_ids = {each.batch_id for _, each in self._given_up}
        missing = [row for row in source if row[0] not in found and row[1] not in batch_ids]
        restored = [each for _, each in self._given_up if each.deletion is Deletion.ADDED_AGAIN]
        assert len(missing) <= sum(each.rows or 0 for each in restored if each.batch_id is None)

    def _compare_separate(self, source: Counter[Row]) -> None:
        """Each event is in the typed table or in that of its errors, whatever the schema was meanwhile."""
        good, bad = documents_of(self._events.typed), documents_of(self._events.errors)
        assert set((good + bad).values()) <= {1}
        is_split = self._events.packing != "record"
        documents = {*TYPED_DOCUMENTS, DAMAGED_DOCUMENT} if is_split else {None}
        assert {each for _, each in good} <= documents - {DAMAGED_DOCUMENT}
        assert of_each(source, documents) <= {*good, *bad} <= of_each(self._ever, documents)


def numbers_of(rows: Iterable[Row]) -> set[str]:
    """Return the sequence numbers of events."""
    return {number for number, *_ in rows}


def of_each(rows: Iterable[Row], documents: Iterable[int | None]) -> set[tuple[str, int | None]]:
    """Return the documents of the records of events."""
    return {(number, document) for number in numbers_of(rows) for document in documents}


@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(HISTORIES) if seed != 1)]
)
def test_each_row_is_consumed_exactly_once_in_any_history(events: EventBench, seed: int) -> None:
    events.packing = [*PACKINGS][seed % len(PACKINGS)]
    history = History(events, seed)
    for _ in range(STEPS_OF_A_HISTORY):
        history.step()
    history.end()
