"""Reading data files in a task."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from kinesis_assets.derive.cursor import Selection
from kinesis_assets.derive.files import TableFile
from kinesis_assets.derive.read import _reading
from kinesis_assets.table.storage import TableFolder


def test_a_task_reads_the_rows_of_one_row_group_at_once(tmp_path):
    rows = pa.table({"number": list(range(6))})
    pq.write_table(rows, tmp_path / "data.parquet", row_group_size=2)
    folder, file = TableFolder.at(str(tmp_path)), TableFile("data.parquet", 1, 6)
    read = _reading(folder, [[file]], rows.schema, Selection(), None)
    batches = list(read(iter([pa.record_batch({"id": [0]})])))
    assert [batch["number"].to_pylist() for batch in batches] == [[0, 1], [2, 3], [4, 5]]
