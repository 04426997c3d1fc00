"""Archived shards: which commits archive them, what refers to them, and crashes during archiving."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from kinesis_assets.errors import PositionConflict
from kinesis_assets.operations.doctor.history import chain_breaks
from kinesis_assets.table.commit_ids import new_id, time_of_id
from kinesis_assets.table.commits.commit import commit
from kinesis_assets.table.maintenance.pruning import CHAIN_KEPT
from kinesis_assets.table.policy import TablePolicy
from kinesis_assets.table.positions import positions_file
from kinesis_assets.table.positions.positions_chain import ARCHIVE_FOLDER, POSITIONS_FOLDER, ChainPolicy
from kinesis_assets.table.raw_table import PositionedTable
from support.attempts import (
    BEGINNING,
    STREAM,
    Attempt,
    current_positions,
    freeze_all,
    last_number,
    listing,
    rows_by_shard,
    shards,
)
from support.maintained_table import days_from_now, steps_of
from support.shifted_clock import ShiftedClock
from support.table_folder import copy_table
from support.watched_files import WatchedFiles

pytestmark = pytest.mark.slow

EAGER = TablePolicy(ChainPolicy(max_files=2, min_repeated=0, min_archived=2))
ENDED = {"a", "b"}


class Killed(BaseException):
    """The process is killed here."""


def read_on(table, counts, listed, *, ended=()):
    """Commit some records of some shards; those in `ended` are read to their end."""
    attempt = Attempt(table, current_positions(table), counts)
    moved = {
        shard_id: msgspec.structs.replace(shard, finished=shard_id in ended)
        for shard_id, shard in attempt.moved.items()
    }
    return commit(
        table,
        expected=attempt.expected,
        listing=listing(shards(*listed)),
        batch_id=attempt.batch_id,
        moved=moved,
        files=attempt.files,
        added=attempt.added,
    )


def positions_with_archive(table):
    """The current positions, including archived shards."""
    return table.snapshot().with_all_archived(current_positions(table))


def assert_rows_match_positions_and_archive(table):
    positions = positions_with_archive(table)
    last_numbers = {shard_id: last_number(positions, shard_id) for shard_id in sorted(positions.shards)}
    assert rows_by_shard(table) == {
        shard_id: list(range(1, last + 1)) for shard_id, last in last_numbers.items() if last
    }


def read_until_archived(table):
    """Read on while only shard c is listed, until a and b are archived."""
    while current_positions(table).shards.keys() != {"c"}:
        assert current_positions(table).generation < 9
        read_on(table, {"c": 1}, "c")


@pytest.fixture(scope="module")
def original_ended(tmp_path_factory):
    table = PositionedTable(str(tmp_path_factory.mktemp("ended") / "table"), EAGER)
    freeze_all(table, shards("a", "b", "c"))
    read_on(table, {"a": 3, "b": 2, "c": 1}, "abc", ended=ENDED)
    return table


@pytest.fixture(scope="module")
def original_archived(original_ended, tmp_path_factory):
    folder = tmp_path_factory.mktemp("archived") / "table"
    table = copy_table(original_ended, PositionedTable(str(folder), EAGER))
    read_until_archived(table)
    return table


@pytest.fixture
def ended(original_ended, table):
    """A table with shards a and b read to their end, and c unfinished. All are still listed."""
    return copy_table(original_ended, PositionedTable(table.uri, EAGER))


@pytest.fixture
def archived(original_archived, table):
    """The same table after a and b are no longer listed and were archived."""
    return copy_table(original_archived, PositionedTable(table.uri, EAGER))


def test_finished_shards_are_not_archived_while_they_are_listed(ended):
    for _ in range(9):
        read_on(ended, {"c": 1}, "abc")
    assert current_positions(ended).shards.keys() == {"a", "b", "c"}
    assert not Path(ended.uri, ARCHIVE_FOLDER).exists()


def test_the_ids_of_segments_follow_the_clock_of_the_table(ended):
    clock = ShiftedClock()
    clock.advance(hours=6)
    read_until_archived(PositionedTable(ended.uri, replace(EAGER, clock=clock)))
    (segment,) = Path(ended.uri, ARCHIVE_FOLDER).iterdir()
    assert time_of_id(int(segment.name.partition(".")[0])) > clock.time() - 3600


def test_unfinished_shards_are_not_archived_when_they_are_no_longer_listed(table):
    table = PositionedTable(table.uri, EAGER)
    freeze_all(table, shards("a", "b", "c"))
    for _ in range(9):
        read_on(table, {"c": 1}, "c")
    assert current_positions(table).shards.keys() == {"a", "b", "c"}


def test_archived_shards_keep_all_their_fields(ended):
    before = current_positions(ended).shards
    read_until_archived(ended)
    found = positions_with_archive(PositionedTable(ended.uri)).shards
    assert {shard_id: found[shard_id] for shard_id in ENDED} == {
        shard_id: before[shard_id] for shard_id in ENDED
    }
    assert_rows_match_positions_and_archive(ended)


def test_a_stale_shard_list_does_not_restart_archived_shards(archived):
    for _ in range(5):
        read_on(archived, {"c": 1}, "abc")
    now = PositionedTable(archived.uri).chain.with_archived(current_positions(archived), ENDED).shards
    assert all(now[shard_id].finished and now[shard_id].position != BEGINNING for shard_id in ENDED)


def test_an_attempt_conflicts_if_another_run_finished_and_archived_its_shard(table):
    table = PositionedTable(table.uri, EAGER)
    freeze_all(table, shards("a", "b", "c"))
    attempt = Attempt(table, current_positions(table), {"a": 5, "c": 2})
    read_on(table, {"a": 3, "b": 2}, "abc", ended=ENDED)
    while "a" in current_positions(table).shards:
        assert current_positions(table).generation < 9
        seen = msgspec.structs.replace(current_positions(table).shards["c"], tip_time=datetime.now(UTC))
        commit(
            table,
            expected=current_positions(table),
            listing=listing(shards("c")),
            batch_id=new_id(),
            moved={"c": seen},
            files=[],
            added={},
        )
    result = commit(
        table,
        expected=attempt.expected,
        listing=listing(shards("c")),
        batch_id=attempt.batch_id,
        moved=attempt.moved,
        files=attempt.files,
        added=attempt.added,
    )
    assert isinstance(result.conflicts["a"], PositionConflict)
    assert result.conflicts.keys() == {"a"}
    assert_rows_match_positions_and_archive(table)


def links(table):
    """Each pair of consecutive positions, as the doctor reads them."""
    snapshot = PositionedTable(table.uri).snapshot()
    now = snapshot.with_all_archived(current_positions(table))
    while now.previous is not None:
        before = snapshot.with_all_archived(snapshot.table.chain.positions_at(now.previous))
        yield before, now
        now = before


def test_archiving_shards_does_not_break_the_chain(archived):
    for _ in range(4):  # listed again for a while
        read_on(archived, {"c": 1}, "abc")
    assert [*map(list, (chain_breaks(*link) for link in links(archived)))] == [[]] * current_positions(
        archived
    ).generation


def test_a_shard_in_neither_the_positions_nor_the_archive_breaks_the_chain(ended):
    now = current_positions(ended)
    lost = msgspec.structs.replace(
        now,
        commit_id=now.commit_id + 1,
        previous=now.commit_id,
        generation=now.generation + 1,
        added={},
        shards={"c": now.shards["c"]},
    )
    ended.snapshot().commit([], identity=STREAM, positions=lost)
    newest, *_ = links(ended)
    assert sorted(chain_breaks(*newest)) == [
        ("a", "its position is missing"),
        ("b", "its position is missing"),
    ]


# Older formats, and crashes


def as_older(table, older_format):
    """Rewrite the newest positions in an older format."""
    older = msgspec.structs.replace(current_positions(table), format=older_format)
    content = msgspec.json.encode(older) if older_format < 4 else positions_file.encode(older)
    Path(table.uri, POSITIONS_FOLDER, f"{older.commit_id}.json").write_bytes(content)
    return older


class KilledWriter(WatchedFiles):
    """The files of a process that is killed at one of the files that it writes below `_kinesis/`.

    Args:
        files: The folder.
        nth: The index of that file.
        moment: When the process is killed: before, halfway through, or after the write.
    """

    def __init__(self, files, nth, moment):
        super().__init__(files, lambda _: None)
        self.left, self.moment = nth, moment

    def open_output_stream(self, path, **options):
        sink = super().open_output_stream(path, **options)
        if path.startswith("_kinesis/"):
            self.left -= 1
            if self.left < 0:
                return _KilledSink(sink, self.moment)
        return sink


class _KilledSink:
    def __init__(self, sink, moment):
        self._sink, self._moment = sink, moment

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._sink.close()
        raise Killed

    def write(self, content):
        self._sink.write(content[: {"before": 0, "half": len(content) // 2, "after": None}[self._moment]])


@pytest.mark.parametrize("older_format", [1, 3, 5])
@pytest.mark.parametrize("moment", ["before", "half", "after"])
@pytest.mark.parametrize("nth", [0, 1])
def test_after_a_crash_during_the_upgrade_the_old_positions_are_valid_and_the_next_commit_upgrades(
    ended, older_format, moment, nth
):
    older = as_older(ended, older_format)
    if older_format == 1:
        # Format 1 does not have these fields.
        older = msgspec.structs.replace(older, added={}, listed_at=None)
        Path(ended.uri, POSITIONS_FOLDER, f"{older.commit_id}.json").write_bytes(msgspec.json.encode(older))
    killed = PositionedTable(ended.uri, EAGER)
    killed.files = KilledWriter(killed.files, nth, moment)
    attempt = Attempt(PositionedTable(ended.uri), older, {"c": 4})
    attempt.table = killed
    with pytest.raises(Killed):
        commit(
            killed,
            expected=older,
            listing=listing(shards("c")),
            batch_id=attempt.batch_id,
            moved=attempt.moved,
            files=attempt.files,
            added=attempt.added,
        )
    table = PositionedTable(ended.uri, EAGER)
    assert current_positions(table) == older
    assert_rows_match_positions_and_archive(table)
    read_on(table, {"c": 1}, "c")
    table = PositionedTable(ended.uri, EAGER)
    assert current_positions(table).format > 5
    assert current_positions(table).shards.keys() == {"c"}
    assert positions_with_archive(table).shards.keys() == {"a", "b", "c"}
    assert_rows_match_positions_and_archive(table)


def test_an_upgrade_writes_exactly_two_files(ended):
    """The test of crashes covers each of these files."""
    as_older(ended, 5)
    killed = PositionedTable(ended.uri, EAGER)
    killed.files = KilledWriter(killed.files, 2, "before")
    read_on(killed, {"c": 1}, "c")
    assert killed.files.left == 0


# Maintenance


def test_maintenance_deletes_only_old_segments_that_no_commit_refers_to(archived):
    folder = Path(archived.uri, ARCHIVE_FOLDER)
    referenced = set(folder.iterdir())
    killed = PositionedTable(archived.uri, TablePolicy(ChainPolicy(max_files=0, min_archived=1)))
    read_on(archived, {"c": 1}, "c", ended="c")
    killed.files = KilledWriter(killed.files, 0, "after")
    other = current_positions(archived)
    with pytest.raises(Killed):
        killed.chain.write(
            msgspec.structs.replace(other, commit_id=other.commit_id + 1, previous=other.commit_id),
            retired={"c"},
        )
    (orphan,) = set(folder.iterdir()) - referenced
    steps_of(archived)
    assert orphan.exists()
    assert steps_of(archived, days_from_now(CHAIN_KEPT.days + 1))["prune", ARCHIVE_FOLDER].files == 1
    assert set(folder.iterdir()) == referenced
    assert positions_with_archive(PositionedTable(archived.uri)).shards.keys() == {"a", "b", "c"}


@pytest.mark.slow
def test_the_chain_is_readable_after_pruning(ended):
    table = PositionedTable(ended.uri, TablePolicy(ChainPolicy(max_files=2, min_repeated=1000)))
    for _ in range(7):  # each third file holds all shards
        read_on(table, {"c": 1}, "abc")
        before = current_positions(table)
        steps_of(table, days_from_now(CHAIN_KEPT.days + 1))
        assert current_positions(PositionedTable(ended.uri)) == before
        assert len(list(Path(ended.uri, POSITIONS_FOLDER).iterdir())) <= 2
