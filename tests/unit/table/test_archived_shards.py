"""Shards in the archive: the commits that take them there, what refers to them, and crashes between."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from kinesis_assets.doctor.chain import chain_breaks
from kinesis_assets.errors import PositionConflict
from kinesis_assets.kinesis.stream import StreamSummary
from kinesis_assets.table import positions_file
from kinesis_assets.table.commit import commit
from kinesis_assets.table.commit_ids import new_id
from kinesis_assets.table.maintenance.pruning import CHAIN_KEPT
from kinesis_assets.table.maintenance.run import maintain
from kinesis_assets.table.policy import TablePolicy
from kinesis_assets.table.positions_archive import ARCHIVE_FOLDER
from kinesis_assets.table.positions_chain import POSITIONS_FOLDER, ChainPolicy
from kinesis_assets.table.table import PositionedTable
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
from support.watched_files import WatchedFiles

EAGER = TablePolicy(ChainPolicy(max_files=2, min_repeated=0, min_archived=2))
ENDED = {"a", "b"}


class Killed(BaseException):
    """The process ended here."""


def read_on(table, counts, listed, *, ended=()):
    """One attempt that reads some records of some shards, some of them to their end."""
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


def everything(table):
    """The positions with the archive."""
    return table.snapshot().with_archive(current_positions(table))


def assert_rows_are_what_everything_says(table):
    passed = {shard_id: last_number(everything(table), shard_id) for shard_id in everything(table).shards}
    assert rows_by_shard(table) == {
        shard_id: list(range(1, last + 1)) for shard_id, last in sorted(passed.items()) if last
    }


@pytest.fixture
def ended(table):
    """A table in which shards a and b were read to their end, and c was not; all are still listed."""
    table = PositionedTable(table.uri, EAGER)
    freeze_all(table, shards("a", "b", "c"))
    read_on(table, {"a": 3, "b": 2, "c": 1}, "abc", ended=ENDED)
    return table


@pytest.fixture
def archived(ended):
    """The same, a and b being in the archive since they are no longer listed."""
    while current_positions(ended).shards.keys() != {"c"}:
        assert current_positions(ended).generation < 9
        read_on(ended, {"c": 1}, "c")
    return ended


def test_finished_shards_stay_in_the_positions_while_they_are_listed(ended):
    for _ in range(9):
        read_on(ended, {"c": 1}, "abc")
    assert current_positions(ended).shards.keys() == {"a", "b", "c"}
    assert not Path(ended.uri, ARCHIVE_FOLDER).exists()


def test_unfinished_shards_that_are_no_longer_listed_stay_in_the_positions(table):
    table = PositionedTable(table.uri, EAGER)
    freeze_all(table, shards("a", "b", "c"))
    for _ in range(9):
        read_on(table, {"c": 1}, "c")
    assert current_positions(table).shards.keys() == {"a", "b", "c"}


def test_archived_shards_keep_all_that_is_known_of_them(ended):
    before = current_positions(ended).shards
    while current_positions(ended).shards.keys() != {"c"}:
        read_on(ended, {"c": 1}, "c")
    found = everything(PositionedTable(ended.uri)).shards
    assert {shard_id: found[shard_id] for shard_id in ENDED} == {
        shard_id: before[shard_id] for shard_id in ENDED
    }
    assert_rows_are_what_everything_says(ended)


def test_a_stale_list_that_shows_archived_shards_does_not_begin_them_again(archived):
    for _ in range(5):
        read_on(archived, {"c": 1}, "abc")
    now = PositionedTable(archived.uri).snapshot().recall(current_positions(archived), ENDED).shards
    assert all(now[shard_id].finished and now[shard_id].position != BEGINNING for shard_id in ENDED)


def test_an_attempt_on_a_shard_that_others_finished_and_archived_meanwhile_is_a_conflict(table):
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
    assert_rows_are_what_everything_says(table)


def links(table):
    """Each two positions that follow on each other, as the doctor reads them."""
    snapshot = PositionedTable(table.uri).snapshot()
    now = snapshot.with_archive(current_positions(table))
    while now.previous is not None:
        before = snapshot.with_archive(snapshot.positions_at(now.previous))
        yield before, now
        now = before


def test_shards_that_went_to_the_archive_are_no_break_of_the_chain(archived):
    for _ in range(4):  # and come back for a while
        read_on(archived, {"c": 1}, "abc")
    assert [*map(list, (chain_breaks(*link) for link in links(archived)))] == [[]] * current_positions(
        archived
    ).generation


def test_a_shard_that_is_neither_in_the_positions_nor_in_the_archive_is_a_break(ended):
    lost = msgspec.structs.replace(
        current_positions(ended),
        commit_id=current_positions(ended).commit_id + 1,
        previous=current_positions(ended).commit_id,
        added={},
    )
    lost = msgspec.structs.replace(lost, generation=lost.generation + 1, shards={"c": lost.shards["c"]})
    ended.snapshot().commit([], identity=STREAM, positions=lost)
    newest, *_ = links(ended)
    assert sorted(chain_breaks(*newest)) == [
        ("a", "its position is missing"),
        ("b", "its position is missing"),
    ]


# Older formats, and crashes


def as_older(table, form):
    """Leave the newest positions as an older version wrote them."""
    older = msgspec.structs.replace(current_positions(table), format=form)
    content = msgspec.json.encode(older) if form < 4 else positions_file.encode(older)
    Path(table.uri, POSITIONS_FOLDER, f"{older.commit_id}.json").write_bytes(content)
    return older


class Dying(WatchedFiles):
    """Files of a process that dies at one of those that it writes beside the data.

    Args:
        files: The folder.
        nth: Which of them.
        moment: Before it is written, in the middle, or after.
    """

    def __init__(self, files, nth, moment):
        super().__init__(files, lambda _: None)
        self.left, self.moment = nth, moment

    def open_output_stream(self, path, **options):
        sink = super().open_output_stream(path, **options)
        if path.startswith("_kinesis/"):
            self.left -= 1
            if self.left < 0:
                return _DyingSink(sink, self.moment)
        return sink


class _DyingSink:
    def __init__(self, sink, moment):
        self._sink, self._moment = sink, moment

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._sink.close()
        raise Killed

    def write(self, content):
        self._sink.write(content[: {"before": 0, "half": len(content) // 2, "after": None}[self._moment]])


@pytest.mark.parametrize("form", [1, 3, 5])
@pytest.mark.parametrize("moment", ["before", "half", "after"])
@pytest.mark.parametrize("nth", [0, 1])
def test_a_crash_at_any_file_of_the_upgrade_leaves_the_old_positions_and_the_next_commit_upgrades(
    ended, form, moment, nth
):
    older = as_older(ended, form)
    if form == 1:
        # It knows nothing of what came since.
        older = msgspec.structs.replace(older, added={}, listed_at=None)
        Path(ended.uri, POSITIONS_FOLDER, f"{older.commit_id}.json").write_bytes(msgspec.json.encode(older))
    dying = PositionedTable(ended.uri, EAGER)
    dying.files = Dying(dying.files, nth, moment)
    attempt = Attempt(PositionedTable(ended.uri), older, {"c": 4})
    attempt.table = dying
    with pytest.raises(Killed):
        commit(
            dying,
            expected=older,
            listing=listing(shards("c")),
            batch_id=attempt.batch_id,
            moved=attempt.moved,
            files=attempt.files,
            added=attempt.added,
        )
    table = PositionedTable(ended.uri, EAGER)
    assert current_positions(table) == older
    assert_rows_are_what_everything_says(table)
    read_on(table, {"c": 1}, "c")
    table = PositionedTable(ended.uri, EAGER)
    assert current_positions(table).format > 5
    assert current_positions(table).shards.keys() == {"c"}
    assert everything(table).shards.keys() == {"a", "b", "c"}
    assert_rows_are_what_everything_says(table)


def test_an_upgrade_writes_two_files_and_no_more(ended):
    """So those are all crashes that there are."""
    as_older(ended, 5)
    dying = PositionedTable(ended.uri, EAGER)
    dying.files = Dying(dying.files, 2, "before")
    read_on(dying, {"c": 1}, "c")
    assert dying.files.left == 0


# Maintenance


def maintained(table, days=0):
    """The steps of a maintenance so many days from now, by the machine's clock and the service's alike."""
    now = datetime.now(UTC) + timedelta(days=days)
    stream = StreamSummary(STREAM, now, retention_hours=24)
    return list(maintain(table, stream, machine=lambda: now))


def test_segments_that_no_commit_names_go_when_they_are_old_and_the_others_stay(archived):
    folder = Path(archived.uri, ARCHIVE_FOLDER)
    named = set(folder.iterdir())
    dying = PositionedTable(archived.uri, TablePolicy(ChainPolicy(max_files=0, min_archived=1)))
    read_on(archived, {"c": 1}, "c", ended="c")
    dying.files = Dying(dying.files, 0, "after")
    other = current_positions(archived)
    with pytest.raises(Killed):
        dying.chain.write(
            msgspec.structs.replace(other, commit_id=other.commit_id + 1, previous=other.commit_id),
            retired={"c"},
        )
    (orphan,) = set(folder.iterdir()) - named
    maintained(archived)
    assert orphan.exists()
    steps = {(step.step, step.of): step.files for step in maintained(archived, CHAIN_KEPT.days + 1)}
    assert steps["prune", ARCHIVE_FOLDER] == 1
    assert set(folder.iterdir()) == named
    assert everything(PositionedTable(archived.uri)).shards.keys() == {"a", "b", "c"}


def test_what_is_left_of_the_chain_can_be_read_after_pruning(ended):
    table = PositionedTable(ended.uri, TablePolicy(ChainPolicy(max_files=5, min_repeated=1000)))
    for _ in range(14):
        read_on(table, {"c": 1}, "abc")
        before = current_positions(table)
        maintained(table, CHAIN_KEPT.days + 1)
        assert current_positions(PositionedTable(ended.uri)) == before
        assert len(list(Path(ended.uri, POSITIONS_FOLDER).iterdir())) <= 2
