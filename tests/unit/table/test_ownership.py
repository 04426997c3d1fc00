"""Ownership of tables: a table belongs to one stream, and another ARN is refused without changes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import msgspec
import pytest
from deltalake import CommitProperties, DeltaTable, Schema, write_deltalake
from deltalake.transaction import Transaction

from benchmarks.harness.waiting import SECONDS
from kinesis_assets.errors import CommitOvertaken, PositionsMissing, TableOfAnotherStream
from kinesis_assets.table.commits.commit import claim
from kinesis_assets.table.data_file import PARTITION_COLUMNS, TABLE_SCHEMA
from kinesis_assets.table.delta.log import applications
from kinesis_assets.table.delta.raw_table import DeltaSnapshot
from kinesis_assets.table.maintenance.run import maintain
from kinesis_assets.table.ownership import OWNER
from kinesis_assets.table.raw_table import PositionedTable
from kinesis_assets.table.snapshot import TableSnapshot
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
    """The table with rows of a shard of the stream."""
    Attempt(table, freeze_all(table, shards("a")), {"a": 3}).commit()
    return table


def owner_of(table):
    return DeltaTable(table.uri).metadata().configuration.get(OWNER)


def log_of(table):
    return DeltaTable(table.uri).version()


def create_by_older_release(table, *identities):
    """Create the table as a release did that did not record the stream."""
    table.create_if_missing()
    for identity in identities:
        snapshot = table.snapshot()
        positions = freeze_all(
            PositionedTable(f"{table.uri}-{identity.arn[-5:]}"), shards("a"), identity=identity
        )
        snapshot.commit([], identity=identity, positions=positions)
    assert owner_of(table) is None


def test_a_new_table_records_its_stream(table):
    freeze_all(table, shards("a"))
    assert owner_of(table) == STREAM.arn


def test_an_empty_table_without_an_owner_is_claimed_by_the_first_stream(table):
    table.create_if_missing()
    freeze_all(table, shards("a"))
    assert owner_of(table) == STREAM.arn


@OTHERS
def test_the_first_run_of_another_stream_is_refused_with_both_arns_and_changes_nothing(filled, other):
    before = log_of(filled)
    with pytest.raises(TableOfAnotherStream) as caught:
        freeze_all(filled, shards("a"), identity=other)
    assert STREAM.arn in str(caught.value)
    assert other.arn in str(caught.value)
    assert log_of(filled) == before


@OTHERS
@pytest.mark.parametrize("read", [TableSnapshot.positions, TableSnapshot.amendment])
def test_reading_entries_of_another_stream_is_refused(filled, other, read):
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
def test_the_owner_of_a_table_of_an_older_release_is_read_from_its_log(table, other):
    create_by_older_release(table, STREAM)
    with pytest.raises(TableOfAnotherStream, match=STREAM.arn):
        table.snapshot().positions(other)
    assert table.snapshot().positions(STREAM) is not None


def test_a_table_of_an_older_release_is_claimed_for_its_stream_once(table):
    create_by_older_release(table, STREAM)
    claim(table, STREAM)
    claimed = log_of(table)
    claim(table, STREAM)
    assert (owner_of(table), log_of(table)) == (STREAM.arn, claimed)


def test_maintenance_does_not_claim_a_table_without_positions(table):
    table.create_if_missing()
    claim(table, STREAM)
    assert owner_of(table) is None


def test_a_table_of_an_older_release_with_two_streams_is_refused_for_both(table):
    create_by_older_release(table, STREAM, OTHER_NAME)
    for identity in (STREAM, OTHER_NAME):
        with pytest.raises(TableOfAnotherStream) as caught:
            claim(table, identity)
        assert STREAM.arn in str(caught.value)
        assert OTHER_NAME.arn in str(caught.value)
    assert owner_of(table) is None


@pytest.mark.parametrize("exists", [False, True], ids=["new", "empty"])
def test_only_one_of_two_streams_that_start_concurrently_gets_the_table(table, monkeypatch, exists):
    if exists:
        table.create_if_missing()
    both = Barrier(2)
    original_claim = DeltaSnapshot.claim
    first = {STREAM.arn: True, OTHER_NAME.arn: True}

    def concurrently(snapshot, identity):
        if first.pop(identity.arn, False):
            both.wait(SECONDS)  # both have read a table without an owner
        original_claim(snapshot, identity)

    monkeypatch.setattr(DeltaSnapshot, "claim", concurrently)

    def start(identity):
        if not exists:
            both.wait(SECONDS)
        try:
            return freeze_all(PositionedTable(table.uri), shards("a"), identity=identity)
        except TableOfAnotherStream as error:
            return error

    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(start, [STREAM, OTHER_NAME]))
    assert sum(isinstance(result, TableOfAnotherStream) for result in results) == 1
    assert len(applications(table.files)) == 1


def freeze_by_older_release(table, identity, snapshot=None):
    """Commit as a release without owners does, based on the current or an earlier snapshot."""
    elsewhere = PositionedTable(f"{table.uri}-{identity.arn[-5:]}")
    positions = freeze_all(elsewhere, shards("a"), identity=identity)
    snapshot = snapshot or table.snapshot()
    snapshot.commit([], identity=identity, positions=positions)
    return positions


def before_the_freeze(monkeypatch, meanwhile):
    """Call `meanwhile` once, after the table is claimed and before the first positions are committed."""
    original_claim = DeltaSnapshot.claim

    def claimed(snapshot, identity):
        original_claim(snapshot, identity)
        meanwhile()

    monkeypatch.setattr(DeltaSnapshot, "claim", claimed)


@OTHERS
def test_a_freeze_fails_if_an_older_release_froze_another_stream_after_the_claim(table, monkeypatch, other):
    table.create_if_missing()
    before_the_freeze(monkeypatch, lambda: freeze_by_older_release(table, other))
    with pytest.raises(TableOfAnotherStream, match=other.arn):
        freeze_all(table, shards("a"))
    assert applications(table.files) == {f"kinesis/{other.arn}"}


@OTHERS
def test_a_freeze_fails_if_an_older_release_froze_another_stream_during_its_commit(table, monkeypatch, other):
    original_commit = TableSnapshot.commit

    def during_commit(snapshot, files, *, identity, **more):
        monkeypatch.setattr(TableSnapshot, "commit", original_commit)
        freeze_by_older_release(table, other)
        original_commit(snapshot, files, identity=identity, **more)

    monkeypatch.setattr(TableSnapshot, "commit", during_commit)
    with pytest.raises(TableOfAnotherStream):
        freeze_all(table, shards("a"))


def test_positions_that_an_older_release_froze_concurrently_are_used(table, monkeypatch):
    table.create_if_missing()
    frozen = []
    before_the_freeze(monkeypatch, lambda: frozen.append(freeze_by_older_release(table, STREAM)))
    assert [freeze_all(table, shards("a"))] == frozen


def test_an_older_release_cannot_freeze_a_stream_that_was_frozen_after_it_opened_the_table(table):
    table.create_if_missing()
    opened = table.snapshot()
    frozen = freeze_all(table, shards("a"))
    with pytest.raises(CommitOvertaken):
        freeze_by_older_release(table, STREAM, opened)
    assert current_positions(table) == frozen


@pytest.mark.parametrize("checkpoint", [False, True])
def test_applications_are_read_from_the_log_and_its_checkpoint(filled, checkpoint):
    if checkpoint:
        DeltaTable(filled.uri).create_checkpoint()
    filled.snapshot().commit([], identity=OTHER_NAME, positions=current_positions(filled))
    assert applications(filled.files) == {f"kinesis/{STREAM.arn}", f"kinesis/{OTHER_NAME.arn}"}


def test_a_stream_named_past_is_not_confused_with_amendments_of_another_stream(table):
    named_past = msgspec.structs.replace(STREAM, arn=f"{STREAM.arn.rpartition('/')[0]}/past")
    create_by_older_release(table, named_past)
    assert table.snapshot().owners == {named_past.arn}


def test_transactions_of_other_writers_are_not_streams(table):
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
    """A table with the rows of another, like that of CREATE TABLE AS SELECT."""
    write_deltalake(uri, DeltaTable(table.uri).to_pyarrow_table(), partition_by=["arrival_date"])
    return PositionedTable(uri)


def test_a_table_with_rows_but_no_positions_is_refused_without_changes(filled, tmp_path):
    clone = copied(filled, str(tmp_path / "clone"))
    with pytest.raises(PositionsMissing, match="kinesis-assets adopt"):
        freeze_all(clone, shards("a"))
    assert log_of(clone) == 0
    assert owner_of(clone) is None


def test_a_table_whose_rows_were_all_deleted_can_be_started(filled, tmp_path):
    clone = copied(filled, str(tmp_path / "clone"))
    DeltaTable(clone.uri).delete()
    freeze_all(clone, shards("a"))
    assert rows_by_shard(clone) == {}
