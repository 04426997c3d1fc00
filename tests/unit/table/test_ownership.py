"""A table belongs to one stream: another ARN is refused before anything is changed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import msgspec
import pytest
from deltalake import CommitProperties, DeltaTable, Schema, write_deltalake
from deltalake.transaction import Transaction

from kinesis_assets.errors import CommitOvertaken, PositionsMissing, TableOfAnotherStream
from kinesis_assets.table.claims import claim
from kinesis_assets.table.data_file import PARTITION_COLUMNS, TABLE_SCHEMA
from kinesis_assets.table.log_entries import applications
from kinesis_assets.table.maintenance.run import maintain
from kinesis_assets.table.ownership import OWNER
from kinesis_assets.table.snapshot import TableSnapshot
from kinesis_assets.table.table import PositionedTable
from support.attempts import (
    STREAM,
    Attempt,
    current_positions,
    current_summary,
    freeze_all,
    rows_by_shard,
    shards,
)

OTHER_ACCOUNT = msgspec.structs.replace(STREAM, arn=STREAM.arn.replace("000000000000", "111111111111"))
OTHER_REGION = msgspec.structs.replace(STREAM, arn=STREAM.arn.replace("us-east-1", "eu-west-1"))
OTHER_NAME = msgspec.structs.replace(STREAM, arn=f"{STREAM.arn}-2")
OTHERS = pytest.mark.parametrize(
    "other", [OTHER_ACCOUNT, OTHER_REGION, OTHER_NAME], ids=["account", "region", "name"]
)


@pytest.fixture
def filled(table):
    """The test's table, with rows of a shard of the stream."""
    Attempt(table, freeze_all(table, shards("a")), {"a": 3}).commit()
    return table


def owner_of(table):
    return DeltaTable(table.uri).metadata().configuration.get(OWNER)


def log_of(table):
    return DeltaTable(table.uri).version()


def as_of_an_older_version(table, *identities):
    """Make the table as a version of this package did that did not record its stream."""
    table.create_if_missing()
    for identity in identities:
        delta = DeltaTable(table.uri)
        positions = freeze_all(
            PositionedTable(f"{table.uri}-{identity.arn[-5:]}"), shards("a"), identity=identity
        )
        TableSnapshot(table, delta).commit([], identity=identity, positions=positions)
    assert owner_of(table) is None


def test_a_new_table_names_its_stream(table):
    freeze_all(table, shards("a"))
    assert owner_of(table) == STREAM.arn


def test_an_empty_table_that_nobody_claimed_becomes_the_first_streams(table):
    table.create_if_missing()
    freeze_all(table, shards("a"))
    assert owner_of(table) == STREAM.arn


@OTHERS
def test_another_streams_first_run_is_refused_with_both_named_and_changes_nothing(filled, other):
    before = log_of(filled)
    with pytest.raises(TableOfAnotherStream) as caught:
        freeze_all(filled, shards("a"), identity=other)
    assert STREAM.arn in str(caught.value)
    assert other.arn in str(caught.value)
    assert log_of(filled) == before


@OTHERS
@pytest.mark.parametrize("read", [TableSnapshot.positions, TableSnapshot.amendment])
def test_whoever_asks_for_another_streams_entries_is_refused(filled, other, read):
    with pytest.raises(TableOfAnotherStream):
        read(filled.snapshot(), other)


@OTHERS
@pytest.mark.parametrize("dry_run", [False, True])
def test_maintenance_for_another_stream_changes_nothing(filled, other, dry_run):
    before = log_of(filled)
    with pytest.raises(TableOfAnotherStream):
        list(maintain(filled, current_summary(other), retention_days=1, dry_run=dry_run))
    assert log_of(filled) == before


@OTHERS
def test_a_table_of_an_older_version_knows_its_stream_from_its_log(table, other):
    as_of_an_older_version(table, STREAM)
    with pytest.raises(TableOfAnotherStream, match=STREAM.arn):
        table.snapshot().positions(other)
    assert table.snapshot().positions(STREAM) is not None


def test_a_table_of_an_older_version_is_claimed_for_its_stream_once(table):
    as_of_an_older_version(table, STREAM)
    claim(table, STREAM)
    claimed = log_of(table)
    claim(table, STREAM)
    assert (owner_of(table), log_of(table)) == (STREAM.arn, claimed)


def test_a_table_without_any_positions_is_claimed_by_no_maintenance(table):
    table.create_if_missing()
    claim(table, STREAM)
    assert owner_of(table) is None


def test_a_table_of_an_older_version_that_holds_two_streams_is_refused_to_both(table):
    as_of_an_older_version(table, STREAM, OTHER_NAME)
    for identity in (STREAM, OTHER_NAME):
        with pytest.raises(TableOfAnotherStream, match="belongs to one stream") as caught:
            claim(table, identity)
        assert STREAM.arn in str(caught.value)
        assert OTHER_NAME.arn in str(caught.value)
    assert owner_of(table) is None


@pytest.mark.parametrize("there", [False, True], ids=["new", "empty"])
def test_of_two_streams_that_begin_at_once_in_a_table_one_gets_it(table, monkeypatch, there):
    if there:
        table.create_if_missing()
    both = Barrier(2)
    claims = TableSnapshot.claim
    first = {STREAM.arn: True, OTHER_NAME.arn: True}

    def at_once(snapshot, identity):
        if first.pop(identity.arn, False):
            both.wait(60)  # both have seen a table that is nobody's
        claims(snapshot, identity)

    monkeypatch.setattr(TableSnapshot, "claim", at_once)

    def begin(identity):
        if not there:
            both.wait(60)
        try:
            return freeze_all(PositionedTable(table.uri), shards("a"), identity=identity)
        except TableOfAnotherStream as error:
            return error

    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(begin, [STREAM, OTHER_NAME]))
    assert sum(isinstance(result, TableOfAnotherStream) for result in results) == 1
    assert len(applications(table.files)) == 1


def begun_by_an_older_version(table, identity, snapshot=None):
    """The commit of a version that knows of no owner, based on the table as it is now or as it was."""
    elsewhere = PositionedTable(f"{table.uri}-{identity.arn[-5:]}")
    positions = freeze_all(elsewhere, shards("a"), identity=identity)
    snapshot = snapshot or TableSnapshot(table, DeltaTable(table.uri))
    snapshot.commit([], identity=identity, positions=positions)
    return positions


def before_the_freeze(monkeypatch, meanwhile):
    """Have something done once, after the table was claimed and before the first positions are committed."""
    claims = TableSnapshot.claim

    def claimed(snapshot, identity):
        claims(snapshot, identity)
        meanwhile()

    monkeypatch.setattr(TableSnapshot, "claim", claimed)


@OTHERS
def test_a_stream_that_an_older_version_begins_while_this_one_does_is_refused(table, monkeypatch, other):
    table.create_if_missing()
    before_the_freeze(monkeypatch, lambda: begun_by_an_older_version(table, other))
    with pytest.raises(TableOfAnotherStream, match=other.arn):
        freeze_all(table, shards("a"))
    assert applications(table.files) == {f"kinesis/{other.arn}"}


@OTHERS
def test_a_stream_that_an_older_version_begins_beside_this_ones_first_commit_is_refused(
    table, monkeypatch, other
):
    commits = TableSnapshot.commit

    def beside(snapshot, files, *, identity, **more):
        monkeypatch.setattr(TableSnapshot, "commit", commits)
        begun_by_an_older_version(table, other)
        commits(snapshot, files, identity=identity, **more)

    monkeypatch.setattr(TableSnapshot, "commit", beside)
    with pytest.raises(TableOfAnotherStream, match="belongs to one stream"):
        freeze_all(table, shards("a"))


def test_positions_that_an_older_version_froze_at_once_are_gone_on_from(table, monkeypatch):
    table.create_if_missing()
    frozen = []
    before_the_freeze(monkeypatch, lambda: frozen.append(begun_by_an_older_version(table, STREAM)))
    assert [freeze_all(table, shards("a"))] == frozen


def test_an_older_version_cannot_freeze_what_was_frozen_since_it_opened_the_table(table):
    table.create_if_missing()
    opened = TableSnapshot(table, DeltaTable(table.uri))
    frozen = freeze_all(table, shards("a"))
    with pytest.raises(CommitOvertaken):
        begun_by_an_older_version(table, STREAM, opened)
    assert current_positions(table) == frozen


@pytest.mark.parametrize("checkpoint", [False, True])
def test_the_log_tells_every_application_wherever_it_keeps_them(filled, checkpoint):
    if checkpoint:
        DeltaTable(filled.uri).create_checkpoint()
    delta = DeltaTable(filled.uri)
    TableSnapshot(filled, delta).commit([], identity=OTHER_NAME, positions=current_positions(filled))
    assert applications(filled.files) == {f"kinesis/{STREAM.arn}", f"kinesis/{OTHER_NAME.arn}"}


def test_a_stream_named_past_is_not_taken_for_another_streams_past(table):
    named_past = msgspec.structs.replace(STREAM, arn=f"{STREAM.arn.rpartition('/')[0]}/past")
    as_of_an_older_version(table, named_past)
    assert table.snapshot().owners == {named_past.arn}


def test_other_writers_transactions_are_no_streams(table):
    table.create_if_missing()
    DeltaTable(table.uri).create_write_transaction(
        [],
        mode="append",
        schema=Schema.from_arrow(TABLE_SCHEMA),
        partition_by=PARTITION_COLUMNS,
        commit_properties=CommitProperties(app_transactions=[Transaction("someone/else/1", 1)]),
    )
    assert table.snapshot().owners == frozenset()


# Rows without positions


def copied(table, uri):
    """A table with the rows of another, made as CREATE TABLE AS SELECT makes it."""
    write_deltalake(uri, DeltaTable(table.uri).to_pyarrow_table(), partition_by=["arrival_date"])
    return PositionedTable(uri)


def test_rows_without_positions_are_refused_at_the_first_run_and_nothing_is_changed(filled, tmp_path):
    clone = copied(filled, str(tmp_path / "clone"))
    with pytest.raises(PositionsMissing, match="kinesis-assets adopt"):
        freeze_all(clone, shards("a"))
    assert log_of(clone) == 0
    assert owner_of(clone) is None


def test_a_table_whose_rows_are_all_gone_may_be_begun(filled, tmp_path):
    clone = copied(filled, str(tmp_path / "clone"))
    DeltaTable(clone.uri).delete()
    freeze_all(clone, shards("a"))
    assert rows_by_shard(clone) == {}
