"""Verification with DuckDB, an independent reader, that a table contains exactly the acknowledged records."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb


@dataclass(frozen=True, slots=True)
class Proof:
    """A comparison of acknowledged records and table rows.

    Attributes:
        acknowledged: The number of records that the stream acknowledged.
        rows: The number of rows in the table.
        exact: The number of records that the table contains exactly once with unchanged bytes.
        rows_by_shard: The number of rows in the table by shard id.
    """

    acknowledged: int
    rows: int
    exact: int
    rows_by_shard: dict[str, int]

    @property
    def holds(self) -> bool:
        """Whether the table contains every record exactly once and no other rows."""
        return self.acknowledged == self.rows == self.exact


def prove(table: Path, acknowledged: Sequence[tuple[str, str, str]]) -> Proof:
    """Compare a table with the acknowledged records.

    Args:
        table: The table's folder.
        acknowledged: (shard id, sequence number, SHA-256 of the data) of each record.
    """
    connection = _duckdb()
    columns = zip(*acknowledged, strict=True)
    put = pa.table(dict(zip(("shard_id", "sequence_number", "digest"), columns, strict=True)))
    connection.register("put", put)
    connection.execute(
        "CREATE TEMP TABLE landed AS "
        "SELECT shard_id, sequence_number, sha256(data) AS digest FROM delta_scan(?)",
        [str(table)],
    )
    exact = _count(
        connection,
        "SELECT count(*) FROM (SELECT shard_id, sequence_number, digest, count(*) AS times FROM landed "
        "GROUP BY ALL) SEMI JOIN put USING (shard_id, sequence_number, digest) WHERE times = 1",
    )
    by_shard = connection.execute("SELECT shard_id, count(*) FROM landed GROUP BY shard_id").fetchall()
    return Proof(len(acknowledged), _count(connection, "SELECT count(*) FROM landed"), exact, dict(by_shard))


def count_rows(table: Path, what: str) -> int:
    """Return the value of an SQL aggregate over a table.

    Args:
        table: The table's folder.
        what: The aggregate.
    """
    connection = _duckdb()
    query = f"SELECT {what} FROM delta_scan(?)"  # noqa: S608  # the demonstration's own text
    return _count(connection, query, str(table))


def _count(connection: duckdb.DuckDBPyConnection, query: str, *parameters: str) -> int:
    row = connection.execute(query, parameters).fetchone()
    return int(row[0]) if row else 0


def _duckdb() -> duckdb.DuckDBPyConnection:
    import duckdb  # noqa: PLC0415  # slow to import
    import duckdb_extension_delta  # noqa: PLC0415

    # The extension is installed as a package, so loading it downloads nothing.
    extension = next(
        Path(str(duckdb_extension_delta.__file__)).parent.glob("extensions/*/delta.duckdb_extension")
    )
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    connection.execute(f"LOAD '{extension}'")
    return connection
