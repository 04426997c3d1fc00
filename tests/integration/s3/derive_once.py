"""A process that derives a table once, so that its Spark workers have this environment."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2]))

from kinesis_assets.derive.derived_table import DerivedTable
from kinesis_assets.derive.run import Derivation, derive
from kinesis_assets.derive.upsert import Upsert
from kinesis_assets.spark.session import start_session
from support.derived import orders

if __name__ == "__main__":
    source, table = sys.argv[1:]
    derivation = Derivation(source, orders, Upsert(("id",), ("amount",)))
    for _ in derive(start_session({"spark.master": "local[2]"}), DerivedTable(table), derivation):
        pass
