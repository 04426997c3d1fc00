"""The rows that a step adds, and those of the table that it replaces."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812  # the usual name

from kinesis_assets.derive.read import FILE_COLUMN, POSITION_COLUMN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame

    from kinesis_assets.derive.files import TableFile


@dataclass(frozen=True, slots=True)
class ChangedRows:
    """Rows that are not written yet.

    Attributes:
        rows: The new rows. If files are replaced, the rows of the table that are replaced or deleted are
            among them: of such a row, only `FILE_COLUMN` and `POSITION_COLUMN` count, its place. A new row
            has no position, and may have a file, after whose rows it is written.
        removed: The files of the table that are replaced by copies without these rows, by their number in
            `FILE_COLUMN`.
    """

    rows: DataFrame
    removed: Mapping[int, TableFile] = field(default_factory=dict)


def removed_files(placed: DataFrame, files: Sequence[TableFile]) -> dict[int, TableFile]:
    """Return the files with rows that are replaced, by their number.

    Args:
        placed: The rows, with their places. They are computed again later, so they should be cached.
        files: The files to which the numbers refer.
    """
    number = F.when(F.col(POSITION_COLUMN).isNotNull(), F.col(FILE_COLUMN))
    ((found,),) = placed.agg(F.collect_set(number)).collect()
    return {number: files[number] for number in sorted(found)}


def without_place(rows: DataFrame) -> DataFrame:
    """Return rows that are in no file."""
    return rows.withColumns({FILE_COLUMN: F.lit(None).cast("int"), POSITION_COLUMN: F.lit(None).cast("long")})
