"""A derived table whose source and files are in a bucket. Spark needs no library for S3."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from deltalake import DeltaTable

from benchmarks.servers.bucket import bucket
from kinesis_assets.table.table import PositionedTable
from support.derived import order

SCRIPT = Path(__file__).with_name("derive_once.py")


def test_rows_are_upserted_from_a_table_in_a_bucket_into_another(bench):
    bench.create()
    with bucket() as lake:
        bench.table = PositionedTable(f"{lake}/raw")
        for orders in ([order(1, 1.0), order(2, 1.0)], [order(1, 2.0), order(3, 1.0)]):
            bench.put(*orders)
            bench.run()
            subprocess.run([sys.executable, SCRIPT, bench.table.uri, f"{lake}/orders"], check=True)
        rows = DeltaTable(f"{lake}/orders").to_pyarrow_table().select(["id", "amount"]).to_pylist()
    assert sorted((row["id"], row["amount"]) for row in rows) == [(1, 2.0), (2, 1.0), (3, 1.0)]
