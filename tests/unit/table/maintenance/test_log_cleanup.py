"""Checkpoints, and deletion of old entries of the log."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from deltalake.exceptions import DeltaError

from kinesis_assets.errors import CommitFailed
from kinesis_assets.table.commit_ids import new_id
from kinesis_assets.table.maintenance.delta_operations import DeltaOperations
from kinesis_assets.table.policy import HISTORY_RETENTION
from support.attempts import STREAM, Attempt, assert_rows_are_what_positions_say, current_positions
from support.conditions import Condition
from support.maintained_table import age_log, delete_old_log_entries, steps_of
from support.table_folder import LOG_ENTRIES, files_of, set_age

pytestmark = pytest.mark.slow

YEAR = timedelta(days=365)

# By maintenance


def test_maintenance_writes_a_checkpoint_and_deletes_old_log_entries(busy):
    steps_of(busy)
    assert files_of(busy, "_delta_log/*.checkpoint.parquet")
    old = age_log(busy)
    Attempt(busy, current_positions(busy), {"a": 3}).commit()
    before = current_positions(busy)
    steps_of(busy)
    assert len(old & files_of(busy, LOG_ENTRIES)) <= 1
    assert current_positions(busy) == before
    assert_rows_are_what_positions_say(busy)


def test_recent_log_entries_are_kept(busy):
    entries = files_of(busy, LOG_ENTRIES)
    steps_of(busy)
    set_age(busy, HISTORY_RETENTION - timedelta(hours=1), *files_of(busy))
    steps_of(busy)
    assert entries <= files_of(busy, LOG_ENTRIES)


def test_an_attempt_commits_after_the_log_entries_that_it_started_from_are_deleted(busy):
    attempt = Attempt(busy, current_positions(busy), {"a": 3})
    delete_old_log_entries(busy)
    assert attempt.commit().conflicts == {}
    assert_rows_are_what_positions_say(busy)


def test_an_attempt_finds_its_commit_after_the_log_entry_is_deleted(busy):
    attempt = Attempt(busy, current_positions(busy), {"a": 3})
    attempt.commit()
    delete_old_log_entries(busy)
    with pytest.raises(CommitFailed, match="already committed"):
        attempt.commit()
    assert_rows_are_what_positions_say(busy)


@pytest.mark.parametrize("moved", ["a", "b"])
def test_a_commit_based_on_a_version_before_deleted_log_entries_is_refused(busy, moved):
    snapshot, before = busy.snapshot(), current_positions(busy)
    Attempt(busy, before, {moved: 1}).commit()
    delete_old_log_entries(busy)
    now = current_positions(busy)
    with pytest.raises(DeltaError):
        snapshot.commit([], identity=STREAM, positions=msgspec.structs.replace(before, commit_id=new_id()))
    assert current_positions(busy) == now
    assert_rows_are_what_positions_say(busy)


# By other commits


@pytest.mark.parametrize(
    ("difference", "cleaned"), [(timedelta(), True), (YEAR, False), (-YEAR, False), (None, False)]
)
def test_a_commit_cleans_up_the_log_only_if_the_clocks_agree(filled, difference, cleaned):
    old = age_log(filled)
    before = current_positions(filled)
    following = msgspec.structs.replace(
        before,
        commit_id=new_id(),
        previous=before.commit_id,
        generation=100,
        listed_at=None if difference is None else datetime.now(UTC) + difference,
    )
    filled.snapshot().commit([], identity=STREAM, positions=following)
    assert bool(old - files_of(filled)) is cleaned


COMMITS = {
    "properties": lambda table: DeltaOperations(table).set_properties({"note": "1"}),
    "claim": lambda table: table.snapshot().claim(STREAM),
    "deletion": lambda table: table.snapshot().remove(Condition("shard_id = 'a'"), identity=STREAM),
}


@pytest.mark.parametrize("commit", COMMITS.values(), ids=COMMITS.keys())
def test_commits_without_a_service_time_do_not_clean_up_the_log(filled, commit):
    age_log(filled)
    log, version = files_of(filled, "_delta_log/*"), filled.snapshot().version
    commit(filled)
    assert filled.snapshot().version > version
    assert log <= files_of(filled)
