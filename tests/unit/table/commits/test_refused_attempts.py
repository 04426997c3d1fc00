"""Attempts that cannot be committed: unknown positions, too old, invalid data files."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from kinesis_assets.errors import AttemptExpired, CommitUnknown, DataFileInvalid
from kinesis_assets.table.commit_ids import new_id
from kinesis_assets.table.policy import TablePolicy
from kinesis_assets.table.positions.positions_chain import ChainPolicy
from kinesis_assets.table.raw_table import PositionedTable
from support.attempts import Attempt, current_positions
from support.formats import reopened


def test_a_missing_positions_file_raises_commit_unknown(table, frozen):
    # With this policy each file refers to its predecessor only.
    table = reopened(table, TablePolicy(ChainPolicy(max_files=0)))
    attempt = Attempt(table, frozen, {"a": 3})
    for _ in range(3):
        Attempt(table, current_positions(table), {"b": 1}).commit()
    previous = current_positions(table).previous
    Path(table.uri, f"_kinesis/positions/{previous}.json").unlink()
    attempt.table = reopened(table)  # without cached positions
    with pytest.raises(CommitUnknown, match=f"batch {attempt.batch_id}.*{previous}"):
        attempt.commit()


def test_replaced_positions_raise_commit_unknown(table, frozen):
    attempt = Attempt(table, frozen, {"a": 3})
    expected = msgspec.structs.replace(frozen, commit_id=new_id())
    attempt.expected = expected
    with pytest.raises(CommitUnknown, match=str(expected.commit_id)):
        attempt.commit()


def test_a_table_without_positions_of_the_stream_raises_commit_unknown(frozen, tmp_path):
    other = PositionedTable(str(tmp_path / "other"))
    other.create_if_missing()
    with pytest.raises(CommitUnknown, match="missing"):
        Attempt(other, frozen, {"a": 3}).commit()


def test_an_attempt_older_than_a_third_of_the_retention_is_expired(table, frozen):
    old = int((time.time() - timedelta(days=1).total_seconds() / 3 - 60) * 1000) << 20
    attempt = Attempt(table, frozen, {"a": 3}, batch_id=old)
    with pytest.raises(AttemptExpired, match=str(old)):
        attempt.commit()
    assert current_positions(table) == frozen


def test_an_attempt_younger_than_a_third_of_the_retention_is_committed(table, frozen):
    young = int((time.time() - timedelta(days=1).total_seconds() / 3 + 60) * 1000) << 20
    assert Attempt(table, frozen, {"a": 3}, batch_id=young).commit().version == 2


def test_a_missing_data_file_prevents_the_commit(table, frozen):
    attempt = Attempt(table, frozen, {"a": 3})
    table.files.delete_file(attempt.files[0].path)
    with pytest.raises(DataFileInvalid):
        attempt.commit()
    assert current_positions(table) == frozen


def test_a_data_file_listed_twice_prevents_the_commit(table, frozen):
    attempt = Attempt(table, frozen, {"a": 3})
    attempt.files = [*attempt.files, *attempt.files]
    with pytest.raises(DataFileInvalid, match="file twice"):
        attempt.commit()
    assert current_positions(table) == frozen
