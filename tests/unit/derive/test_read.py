"""Reading data files in a task."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from kinesis_assets.derive.files import TableFile
from kinesis_assets.derive.read import rows_of_file
from kinesis_assets.table.store.storage import TableFolder


def test_a_task_reads_the_rows_of_one_row_group_at_once(tmp_path):
    rows = pa.table({"number": list(range(6))})
    pq.write_table(rows, tmp_path / "data.parquet", row_group_size=2)
    folder, file = TableFolder.at(str(tmp_path)), TableFile("data.parquet", 1, 6)
    batches = list(rows_of_file(folder.open(), file, rows.schema))
    assert [batch["number"].to_pylist() for batch in batches] == [[0, 1], [2, 3], [4, 5]]
