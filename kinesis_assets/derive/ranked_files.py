"""The data files of a source with the batches of their rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kinesis_assets.derive.files import TableFile, files_of
from kinesis_assets.errors import TableUnsuitable

if TYPE_CHECKING:
    from kinesis_assets.derive.cursor import Selection
    from kinesis_assets.derive.source import Source


@dataclass(frozen=True, slots=True)
class RankedFile:
    """A data file with the smallest and the greatest batch id of its rows; None if unknown."""

    file: TableFile
    first: int | None
    last: int | None

    @property
    def rows_of_one_batch(self) -> int | None:
        """The number of its rows if they have the same batch id; None otherwise, or if it is unknown."""
        return None if self.first is None or self.first != self.last else self.file.rows


def ranked_files(source: Source, selection: Selection) -> list[RankedFile]:
    """Return the files that may have selected rows."""
    column = source.batch_column
    files = files_of(source.delta, [column])
    if any(file.nulls[column] for file in files):
        raise TableUnsuitable(
            source.uri,
            f"has rows without a {column}, which another program added, so it is unknown whether they were "
            "consumed. Nothing was changed. Delete them, or give them the one of a commit",
        )
    found = [RankedFile(file, file.smallest[column], file.greatest[column]) for file in files]
    return [each for each in found if selection.may_include(each.first, each.last)]
