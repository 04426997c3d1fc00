"""How delta-rs writes the data files that it rewrites."""

from __future__ import annotations

from deltalake import ColumnProperties, WriterProperties

from kinesis_assets.table.data_file import DICTIONARIES, ROW_GROUP_BYTES, STATISTICS

_ZSTD_LEVEL = 3
"""A tenth smaller than level 1, a tenth more CPU; level 6 takes three times as much (benchmarks, codecs)."""

_PAGE_ROWS = 1024
_PAGE_BYTES = 1 << 20
"""Parquet pages are closed after so many rows, or rows of so many bytes."""


def writer_properties(row_bytes: int) -> WriterProperties:
    """Statistics and row groups as `DataFileWriter` writes them; zstd, as these files stay.

    Args:
        row_bytes: Mean size of a row in a file; delta-rs counts rows where memory needs bytes counted.
    """
    plain = ColumnProperties(dictionary_enabled=False, statistics_enabled="NONE")
    names = {*STATISTICS, *DICTIONARIES}
    return WriterProperties(
        compression="ZSTD",
        compression_level=_ZSTD_LEVEL,
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
