"""Verification of data files before a commit."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from kinesis_assets.errors import DataFileInvalid
from kinesis_assets.table.data_file import verify
from support.attempts import land, records


def test_an_intact_file_passes_verification(table):
    (file,) = land(table, 77, {"a": records(1, 3)})
    verify(table.uri, table.files, file)


def test_a_missing_file_is_invalid(table):
    (file,) = land(table, 77, {"a": records(1, 3)})
    table.files.delete_file(file.path)
    with pytest.raises(DataFileInvalid, match=f"{file.path}: {file.size} bytes"):
        verify(table.uri, table.files, file)


def test_a_truncated_file_is_invalid(table):
    (file,) = land(table, 77, {"a": records(1, 3)})
    path = Path(table.uri, file.path)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DataFileInvalid, match=f"{file.size - 1} bytes found"):
        verify(table.uri, table.files, file)


def test_a_file_with_an_unexpected_number_of_rows_is_invalid(table):
    (file,) = land(table, 77, {"a": records(1, 3)})
    claimed = msgspec.structs.replace(file, rows_by_shard={"a": 4})
    with pytest.raises(DataFileInvalid, match=r"\b4 rows\b.*\b3\b"):
        verify(table.uri, table.files, claimed)


def test_a_damaged_file_is_invalid(table):
    (file,) = land(table, 77, {"a": records(1, 3)})
    Path(table.uri, file.path).write_bytes(b"\0" * file.size)
    with pytest.raises(DataFileInvalid):
        verify(table.uri, table.files, file)
