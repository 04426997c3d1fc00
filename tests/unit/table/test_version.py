"""The rows of a table as its log counts them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from kinesis_assets.table.delta.version import TableVersion
from kinesis_assets.table.raw_table import PositionedTable

if TYPE_CHECKING:
    from kinesis_assets.table.stored_table import TableTotals


@pytest.fixture
def uri(tmp_path) -> str:
    return str(tmp_path / "numbers")


def write(uri: str, *numbers: int) -> None:
    write_deltalake(uri, pa.table({"number": list(numbers)}), mode="append")


def totals(uri: str) -> TableTotals:
    return TableVersion(PositionedTable(uri), DeltaTable(uri)).totals()


def test_the_rows_and_bytes_of_all_files_are_added_up(uri):
    write(uri, 1, 2, 3)
    write(uri, 4)
    found = totals(uri)
    files = DeltaTable(uri).get_add_actions()
    assert (found.rows, found.files) == (4, 2)
    assert found.bytes == sum(files["size_bytes"].to_pylist())


def test_a_table_without_files_has_no_rows(uri):
    DeltaTable.create(uri, pa.schema([("number", pa.int64())]))
    found = totals(uri)
    assert (found.rows, found.bytes, found.files) == (0, 0, 0)


def test_the_rows_are_unknown_if_a_file_has_no_statistics(uri):
    write(uri, 1)
    (log,) = Path(uri, "_delta_log").glob("*.json")
    log.write_text("\n".join(map(_without_stats, log.read_text().splitlines())))
    assert totals(uri).rows is None


def _without_stats(line: str) -> str:
    entry = json.loads(line)
    entry.get("add", {}).pop("stats", None)
    return json.dumps(entry)
