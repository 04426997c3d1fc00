"""The entry of a commit of a derived table: what it added, and what the table then has and remembers.

An entry is a file that the table's log points at. As for positions, each file is immutable and written before
the log entry that points at it. A process that dies in between leaves a file that nothing refers to.
"""

from __future__ import annotations

from datetime import date, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, ClassVar

import msgspec

from kinesis_assets.derive.cursor import Cursor
from kinesis_assets.derive.policy import DeletedRows, OnDeleted  # msgspec evaluates the annotations
from kinesis_assets.errors import TableOfAnotherSource, TableUnsuitable
from kinesis_assets.table.data_file import TableFile

if TYPE_CHECKING:
    from collections.abc import Iterable

FORMAT = 3
"""The format number that this release writes. It is raised with every change that an older release must not
read. In files of format 1 it is unknown what was given up, and before format 3 which records a step could not
decode, unless they are in the table."""

_ERRORS_FORMAT = 3

ENTRIES_FOLDER = "_kinesis/derived"

REBUILD_COMMAND = "`kinesis-assets rebuild`"
"""The command that starts a derived table again. It needs neither its rows nor these entries."""

UNMATCHED = ""
"""The key of the number of rows of a router that no route has."""


class ReplacedFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file that is not part of the table: with rows that a commit replaced, deleted or separated.

    Attributes:
        path: Path relative to the table's folder.
    """

    path: str
    size: int
    rows: int

    def as_data_file(self) -> TableFile:
        """Return it as a data file."""
        return TableFile(self.path, self.size, self.rows)


class DeletionFile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A file with keys that were deleted, and the columns that say whether a row is older than the deletion.

    Attributes:
        path: Path relative to the table's folder.
        at: Time of the last commit that deleted one of them (clock of the machine that made it).
        smallest: The smallest values of columns of the key, as far as they are known. A date is a number of
            days since 1970.
        greatest: The greatest values, likewise.
    """

    path: str
    size: int
    rows: int
    at: datetime
    smallest: dict[str, int | str] = {}
    greatest: dict[str, int | str] = {}

    def as_data_file(self, columns: Iterable[str]) -> TableFile:
        """Return it as a data file, with the bounds of some columns."""
        return TableFile(
            self.path,
            self.size,
            self.rows,
            smallest={name: self.smallest.get(name) for name in columns},
            greatest={name: self.greatest.get(name) for name in columns},
        )


class RememberedDeletions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The deletions that a table remembers, see `derive.upsert`.

    Attributes:
        order_by: The columns by which they are compared with rows.
        seconds: How long each is remembered at least.
    """

    order_by: tuple[str, ...] = ()
    seconds: int = 0
    files: tuple[DeletionFile, ...] = ()


NO_DELETIONS = RememberedDeletions()


class Redriven(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The bad records that a redrive decoded again.

    Attributes:
        decoded: How many of them are not bad any more.
        files: The files that identify the records which the table of errors removes, or replaces by those in
            `DerivedCommit.errors`; none if bad records are in this table.
    """

    records: Annotated[int, msgspec.Meta(ge=0)]
    decoded: Annotated[int, msgspec.Meta(ge=0)]
    files: tuple[ReplacedFile, ...] = ()

    @property
    def left(self) -> int:
        """The number of records that are still bad."""
        return self.records - self.decoded


class Floor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The first date of the rows that a table keeps.

    Attributes:
        column: The column with the date, in UTC.
        rows: Number of rows before it that were deleted since the table was last started.
    """

    column: str
    first: date
    rows: int = 0


class Kind(StrEnum):
    """How the rows of a derived table replace others."""

    APPEND = "append"
    UPSERT = "upsert"
    ROLLUP = "roll-up"
    ROUTER = "router"


class Definition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What the rows of a table have in common, as long as it is not rebuilt.

    It is in the commit entry, and not in a property of the table: an entry is committed with the rows that it
    describes, through a compare-and-set, and neither a restore nor an overwrite of the table reverts it. A
    commit of an older release records none, and the next one does.

    Attributes:
        owner: The key of the asset that the table belongs to; None if it is unknown.
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

        Raises:
            TableUnsuitable: They cannot.
        """
        if (self.kind, {*self.key}) != (other.kind, {*other.key}):
            raise TableUnsuitable(
                table,
                f"was derived as {self}, and the settings now say {other}; nothing was changed. Undo the "
                f"change of the settings, use another table, or run {REBUILD_COMMAND} to start again",
            )

    def after(self, table: str, before: DerivedCommit | None) -> Definition:
        """Return what the next commit of a table with this definition records.

        Raises:
            TableOfAnotherSource: The table belongs to another asset.
            TableUnsuitable: Its rows were computed with another definition.
        """
        recorded = None if before is None else before.definition
        if recorded is None:
            return self
        recorded.check_owner(table, self.owner)
        recorded.check_same_table(table, self)
        return msgspec.structs.replace(self, owner=self.owner or recorded.owner)


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
        redriven: The bad records that were decoded again; None if the commit consumed the source instead.
        errors_before: The id of the newest commit before this one whose files the table of errors consumes,
            or whose release did not record them; None if there is none.
        on_deleted: The policy that decided, if rows of the source were deleted.
        given_up: The rows of the source that were deleted, and are not or no longer derived from here.
        definition: The owner and the definition of the table; None in those of older releases.
        routed: Of a router, the number of rows that it added for each value of the column `route`; under an
            empty text that of rows with null.
        consumed: Number of rows of the source that were consumed since the table was last started, also by
            earlier commits; None if it is unknown, or if the source replaces rows.
        deletions: All deletions that the table remembers; None if there are none.
        maintains: Whether a maintenance made it, which leaves the position where it was.
        floor: The first date of the rows that the table keeps; None if it keeps all.
        expired: The rows that it deleted because of their age: by batch, and together those of batches that
            every consumer has consumed but one that still reads the history of the table.
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
    redriven: Redriven | None = None
    errors_before: int | None = None
    on_deleted: OnDeleted | None = None
    given_up: tuple[DeletedRows, ...] = ()
    definition: Definition | None = None
    routed: dict[str, Annotated[int, msgspec.Meta(ge=0)]] = {}
    consumed: Annotated[int, msgspec.Meta(ge=0)] | None = None
    deletions: RememberedDeletions | None = msgspec.field(default=None, name="tombstones")
    maintains: bool = False
    floor: Floor | None = None
    expired: tuple[DeletedRows, ...] = ()

    arn: ClassVar[None] = None
    """The source may be derived from several streams."""

    @property
    def unmatched(self) -> int | None:
        """Number of rows that it added which no route has; None if the table is no router."""
        is_router = self.definition is not None and self.definition.kind is Kind.ROUTER
        return self.routed.get(UNMATCHED, 0) if is_router else None

    @property
    def records_errors(self) -> bool:
        """Whether the release that made the commit recorded `errors`."""
        return self.format >= _ERRORS_FORMAT

    @property
    def last_errors(self) -> int | None:
        """The id of the newest commit up to this one with such files, as in `errors_before`."""
        has_files = self.errors or (self.redriven is not None and self.redriven.files)
        return self.commit_id if has_files or not self.records_errors else self.errors_before


def entry_path(commit_id: int) -> str:
    """Return the path of a commit entry, relative to the table's folder."""
    return f"{ENTRIES_FOLDER}/{commit_id}.json"


def decode_entry(content: bytes) -> DerivedCommit:
    """Return the entry in a file.

    Raises:
        ValidationError: It is damaged, or of a later release.
    """
    entry = msgspec.json.decode(content, type=DerivedCommit)
    if entry.format > FORMAT:
        raise msgspec.ValidationError(
            f"its format is {entry.format}; this release reads formats up to {FORMAT}"
        )
    return entry
