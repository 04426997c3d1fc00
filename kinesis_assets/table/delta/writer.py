"""How delta-rs writes the data files that it rewrites."""

from __future__ import annotations

from deltalake import ColumnProperties, WriterProperties

from kinesis_assets.table.data_file import (
    DICTIONARIES,
    REWRITTEN_FILES,
    ROW_GROUP_BYTES,
    STATISTICS,
)

_PAGE_ROWS = 1024
_PAGE_BYTES = 1 << 20
"""The maximum size of a Parquet page: in rows, and in bytes."""


def writer_properties(row_bytes: int) -> WriterProperties:
    """Return settings that give files the statistics and row groups of those that `DataFileWriter` writes.

    Args:
        row_bytes: Mean size of a row in the files, in bytes. delta-rs limits row groups and pages by their
            rows, but memory use depends on their bytes.
    """
    plain = ColumnProperties(dictionary_enabled=False, statistics_enabled="NONE")
    names = {*STATISTICS, *DICTIONARIES}
    return WriterProperties(
        compression=REWRITTEN_FILES.codec,
        compression_level=REWRITTEN_FILES.level,
        max_row_group_size=max(1, ROW_GROUP_BYTES // max(1, row_bytes)),
        write_batch_size=max(1, min(_PAGE_ROWS, _PAGE_BYTES // max(1, row_bytes))),
        default_column_properties=plain,
        column_properties={
            name: ColumnProperties(
                dictionary_enabled=name in DICTIONARIES,
                statistics_enabled="CHUNK" if name in STATISTICS else "NONE",
            )
            for name in names
        },
    )
