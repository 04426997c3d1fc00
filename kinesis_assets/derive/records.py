"""The record of a derived table's commit, stored in a file that the table's log points at.

As for positions, each file is immutable and written before the log entry that points at it. A process that
dies in between leaves a file that nothing refers to.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import msgspec

from kinesis_assets.derive.cursor import Cursor
from kinesis_assets.derive.policy import DeletedRows, OnDeleted  # msgspec evaluates the annotations
from kinesis_assets.errors import PositionsUnreadable, TableOfAnotherSource, TableUnsuitable
from kinesis_assets.table.store.referenced_files import FileCache, decoded, read_file, write_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow.fs

FORMAT = 3
"""The format number that this release writes. It is raised with every change that an older release must not
read. In files of format 1 it is unknown what was given up, and before format 3 which records a step could not
decode, unless they are in the table."""

_ERRORS_FORMAT = 3

RECORDS_FOLDER = "_kinesis/derived"

REBUILD_COMMAND = "`kinesis-assets rebuild`"
"""The command that starts a derived table again. It needs neither its rows nor these records."""

_WAY_OUT = f"Restore the original file; or run {REBUILD_COMMAND}, which derives all rows again without it"

_MEMORY_PER_BYTE = 8
"""Approximate memory in bytes of a decoded file, per byte of the file."""


class ReplacedFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file that is not part of the table: with rows that a commit replaced or deleted, or set apart.

    Attributes:
        path: Path relative to the table's folder.
        size: Size in bytes.
        rows: Number of rows.
    """

    path: str
    size: int
    rows: int


class Kind(StrEnum):
    """How the rows of a derived table replace others."""

    APPEND = "append"
    UPSERT = "upsert"
    ROLLUP = "roll-up"


class Definition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What the rows of a table have in common, as long as it is not rebuilt.

    Attributes:
        owner: The key of the asset that the table belongs to; None if it is unknown.
        kind: How rows replace others.
        key: The columns by which they do, in any order: the key of an upsert, or the groups of a roll-up.
    """

    owner: str | None = None
    kind: Kind
    key: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The definition as in the settings of the table."""
        setting = "by" if self.kind is Kind.ROLLUP else "key"
        return f"{self.kind} with {setting}: [{', '.join(self.key)}]" if self.key else str(self.kind)

    def check_owner(self, table: str, owner: str | None) -> None:
        """Check that an asset may own the table.

        Args:
            table: The table's URI, for the error.
            owner: The asset's key; None if it is unknown.

        Raises:
            TableOfAnotherSource: Another asset owns it.
        """
        if None not in (self.owner, owner) and self.owner != owner:
            raise TableOfAnotherSource(
                table,
                f"belongs to the asset {self.owner}, and not to {owner}; nothing was changed. Give each "
                f"asset a table of its own. If it was renamed, run {REBUILD_COMMAND} with --take-over",
            )

    def check_same_table(self, table: str, other: Definition) -> None:
        """Check that rows of another definition, whoever owns them, can be in the table.

        Args:
            table: The table's URI, for the error.
            other: The definition that the settings have now.

        Raises:
            TableUnsuitable: They cannot.
        """
        if (self.kind, {*self.key}) != (other.kind, {*other.key}):
            raise TableUnsuitable(
                table,
                f"was derived as {self}, and the settings now say {other}; nothing was changed. Undo the "
                f"change of the settings, use another table, or run {REBUILD_COMMAND} to start again",
            )


class DerivedCommit(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """A commit of a derived table.

    Attributes:
        format: `FORMAT` of the writer.
        commit_id: The commit id, which names the file. The table's log points at it.
        previous: The commit id of the previous commit; None for the first, and for the first of a rebuild.
        batch_id: The attempt that made the commit. Every row that it added carries it.
        at: Time of the commit (clock of the machine that made it).
        by: The Dagster run id or the person that made it.
        examined: The version of the table that the commit was based on. No restore or overwrite came before
            it, unless the table was rebuilt.
        cursor: The position in the source after the commit.
        rows: Number of rows that it added, without those that it copied from other files.
        records: How many records were decoded, or could not be; None if they were not counted.
        bad_records: How many of them could not be decoded; None likewise. They may be in another table.
        deleted: Number of rows that it deleted or replaced.
        replaced: The files with these rows, for consumers of the table.
        errors: The files with the records that could not be decoded, for the table of errors; none if they
            are in this table.
        errors_before: The id of the newest commit before this one that has such files, or whose release did
            not record them; None if there is none.
        on_deleted: The policy that decided, if rows of the source were deleted.
        given_up: The rows of the source that were deleted, and are not or no longer derived from here.
        definition: The owner and the definition of the table; None in records of older releases.
        consumed: Number of rows of the source that were consumed since the table was last started, also by
            earlier commits; None if it is unknown, or if the source replaces rows.
    """

    format: int
    commit_id: int
    previous: int | None
    batch_id: int
    at: datetime
    by: str | None = None
    examined: int
    cursor: Cursor
    rows: Annotated[int, msgspec.Meta(ge=0)] = 0
    records: Annotated[int, msgspec.Meta(ge=0)] | None = None
    bad_records: Annotated[int, msgspec.Meta(ge=0)] | None = None
    deleted: Annotated[int, msgspec.Meta(ge=0)] = 0
    replaced: tuple[ReplacedFile, ...] = ()
    errors: tuple[ReplacedFile, ...] = ()
    errors_before: int | None = None
    on_deleted: OnDeleted | None = None
    given_up: tuple[DeletedRows, ...] = ()
    definition: Definition | None = None
    consumed: Annotated[int, msgspec.Meta(ge=0)] | None = None

    @property
    def records_errors(self) -> bool:
        """Whether the release that made the commit recorded `errors`."""
        return self.format >= _ERRORS_FORMAT

    @property
    def last_errors(self) -> int | None:
        """The id of the newest commit up to this one with `errors`, as in `errors_before`."""
        return self.commit_id if self.errors or not self.records_errors else self.errors_before


class RecordFiles:
    """The records of a derived table's commits, with a cache of those that were read.

    Args:
        table: The table's URI, for errors.
        files: The table's folder.
    """

    def __init__(self, table: str, files: pyarrow.fs.FileSystem) -> None:
        self._table = table
        self._files = files
        self._cache = FileCache()

    def at(self, commit_id: int) -> DerivedCommit:
        """Read the record with a commit id.

        Raises:
            PositionsUnreadable: The file is missing, damaged, or of another commit.
            TableUnreachable: The file cannot be read at present.
        """
        path = record_path(commit_id)
        found: DerivedCommit | None = self._cache.get(path)
        if found is None:
            content = read_file(self._table, self._files, path, way_out=_WAY_OUT)
            found = decoded(self._table, path, _decode, content, way_out=_WAY_OUT)
            if found.commit_id != commit_id:
                raise PositionsUnreadable(
                    self._table, f"{path} has the content of {found.commit_id}.json. {_WAY_OUT}"
                )
            self._cache.put(path, found, _MEMORY_PER_BYTE * len(content))
        return found

    def back_from(self, newest: DerivedCommit | None) -> Iterator[DerivedCommit]:
        """Yield a commit and the ones before it, newest first. Raises the errors of `at`."""
        each = newest
        while each is not None:
            yield each
            each = None if each.previous is None else self.at(each.previous)

    def write(self, record: DerivedCommit) -> None:
        """Write the file of a new record, before the commit that points at it.

        Raises:
            OSError: The file cannot be written.
        """
        content = msgspec.json.format(msgspec.json.encode(record), indent=1)
        write_file(self._files, record_path(record.commit_id), content)


def record_path(commit_id: int) -> str:
    """Return the path of a record, relative to the table's folder."""
    return f"{RECORDS_FOLDER}/{commit_id}.json"


def _decode(content: bytes) -> DerivedCommit:
    record = msgspec.json.decode(content, type=DerivedCommit)
    if record.format > FORMAT:
        raise msgspec.ValidationError(
            f"its format is {record.format}; this release reads formats up to {FORMAT}"
        )
    return record
