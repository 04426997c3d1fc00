"""Reading data files in a task."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from kinesis_assets.derive.cursor import BatchRecords, Selection
from kinesis_assets.derive.read import parts_of, rows_of_file
from kinesis_assets.derive.row_order import ORDER_COLUMN, RowOrder
from kinesis_assets.table.data_file import TableFile
from kinesis_assets.table.store.storage import TableFolder


def test_a_task_reads_the_rows_of_one_row_group_at_once(tmp_path):
    rows = pa.table({"number": list(range(6))})
    pq.write_table(rows, tmp_path / "data.parquet", row_group_size=2)
    folder, file = TableFolder.at(str(tmp_path)), TableFile("data.parquet", 1, 6)
    batches = list(rows_of_file(folder.open(), file, rows.schema))
    assert [batch["number"].to_pylist() for batch in batches] == [[0, 1], [2, 3], [4, 5]]


def test_rows_of_some_batches_are_read_from_a_file_with_text_in_views(tmp_path):
    """A `DELETE` by delta-rs writes such files."""
    text = pa.array(["1", "2", "3"], pa.string_view())
    rows = {"batch_id": [7, 7, 8], "shard_id": text, "sequence_number": text, "sub_sequence_number": [0] * 3}
    pq.write_table(pa.table(rows), tmp_path / "data.parquet")
    folder, file = TableFolder.at(str(tmp_path)), TableFile("data.parquet", 1, 3)
    left_out = BatchRecords(7, "1", (0, -1), (1, 0))
    selection = Selection(only=frozenset({7}), without_records=(left_out,))
    schema = pa.schema({"sequence_number": pa.string()})
    (batch,) = rows_of_file(folder.open(), file, schema, selection, "batch_id")
    assert batch["sequence_number"].to_pylist() == ["2"]


def test_rows_are_in_the_order_of_the_recorded_commits_after_those_of_others_by_their_ids():
    order = RowOrder("batch_id", (7, 5), ("number",))
    rows = [(5, "10"), (5, "9"), (7, "1"), (30, "1"), (4, "1")]
    batch = pa.table(dict(zip(("batch_id", "number"), zip(*rows, strict=True), strict=True))).to_batches()[0]
    ordered = order.adder()(batch).to_pylist()
    by_order = sorted(ordered, key=lambda row: row[ORDER_COLUMN])
    assert [(row["batch_id"], row["number"]) for row in by_order] == [
        (4, "1"),
        (30, "1"),
        (7, "1"),
        (5, "9"),
        (5, "10"),
    ]


def test_files_are_divided_in_their_order_into_parts_of_a_size_or_of_one_file():
    files = [TableFile(str(number), size, None) for number, size in enumerate((3, 2, 9, 1, 4))]
    assert [[file.size for file in part] for part in parts_of(files, 5)] == [[3, 2], [9], [1, 4]]
    assert list(parts_of([], 5)) == []
