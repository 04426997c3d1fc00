"""A copy of a table, which has rows but no positions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.formats import format_of, table_of, write

if TYPE_CHECKING:
    import pyarrow as pa

    from support.bench import Bench


def copy_rows(bench: Bench, rows: pa.Table | None = None) -> None:
    """Continue with a copy of the table, made as CREATE TABLE AS SELECT makes it."""
    copied = bench.arrow() if rows is None else rows
    bench.table = table_of(format_of(bench.table), f"{bench.table.uri}-copy", name="copy")
    write(bench.table, copied)


def copy_of_a_split(bench: Bench) -> str:
    """Continue with a copy of rows of a parent and its children. Return the id of the parent."""
    (parent,) = bench.create()
    bench.put(1)
    bench.split(parent)
    bench.put(2)
    bench.put(3, part=0.5)
    bench.run()
    bench.run()
    copy_rows(bench)
    assert bench.items == [1, 2, 3]
    return parent
