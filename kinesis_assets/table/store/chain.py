"""Chains of immutable files in a table's folder. The table's log names the newest file of a chain.

Each file is named by its commit id, and names the one before it. It is written before the entry of the log
that names it, so a process that dies in between leaves a file to which nothing refers.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import msgspec

from kinesis_assets.errors import PositionsUnreadable, TableUnreachable
from kinesis_assets.table.store.storage import DAMAGED, is_missing, write_new

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow.fs


RESTORE_ORIGINAL = "Restore the original file; no other file can replace it"


MEMORY_PER_BYTE = 16
"""Approximate memory of a decoded file, per byte of the file."""


class Entry(Protocol):
    """The content of a file of a chain."""

    @property
    def commit_id(self) -> int:
        """The commit id, which names the file."""

    @property
    def previous(self) -> int | None:
        """The commit id of the file before it; None for the first."""

    @property
    def arn(self) -> str | None:
        """The ARN of the stream; None if the file does not name it."""


_Entry = TypeVar("_Entry", bound=Entry)
_Decoded = TypeVar("_Decoded")


class Chain(Generic[_Entry]):
    """The files of a chain, with a cache of those that were read.

    Args:
        table: The table's URI, for errors.
        files: Returns the table's folder.
        path: Returns the path of a file in it by its commit id.
        decode: Decodes the content of a file. It raises one of `DAMAGED` if it is
            damaged or too new.
        way_out: What to do if a file is missing or damaged.
        memory: Returns the approximate memory in bytes of a decoded file, by its content and its entry.

    Attributes:
        files_read: Number of files read so far.
    """

    def __init__(
        self,
        table: str,
        files: Callable[[], pyarrow.fs.FileSystem],
        path: Callable[[int], str],
        decode: Callable[[bytes], _Entry],
        *,
        way_out: str = RESTORE_ORIGINAL,
        memory: Callable[[bytes, _Entry], int] = lambda content, _: MEMORY_PER_BYTE * len(content),
    ) -> None:
        self.files_read = 0
        self._table = table
        self._files = files
        self._path = path
        self._decode = decode
        self._way_out = way_out
        self._memory = memory
        self._cache = FileCache()

    def at(self, commit_id: int, arn: str | None = None) -> _Entry:
        """Read the file with a commit id, whether or not the log or another file names it.

        Args:
            arn: The stream that its file must name, if it names one; None if any will do.

        Raises:
            PositionsUnreadable: The file is missing or damaged, or it is another commit's or stream's.
            TableUnreachable: The file cannot be read at present.
        """
        found: _Entry | None = self._cache.get(commit_id)
        if found is not None:
            self.check(found, commit_id, arn)
            return found
        content = self.content(commit_id)
        found = self.decoded(commit_id, self._decode, content)
        self.check(found, commit_id, arn)
        self._cache.put(commit_id, found, self._memory(content, found))
        return found

    def back_from(self, newest: _Entry | None) -> Iterator[_Entry]:
        """Yield an entry and those before it, newest first. Raises the errors of `at`."""
        each = newest
        while each is not None:
            yield each
            each = None if each.previous is None else self.at(each.previous, each.arn)

    def since(
        self, newest: _Entry | None, expected: int | None, *, may_restart: bool = False
    ) -> Iterator[_Entry]:
        """Yield an entry and those before it, newest first, down to an expected one, which is not read.

        Args:
            expected: The commit id of the expected entry, which is not yielded; None for all entries.
            may_restart: Whether a commit may have started the chain again, without the expected entry.

        Raises:
            PositionsUnreadable: As in `at`, or the expected entry is not in the chain.
            TableUnreachable: As in `at`.
        """
        for each in self.back_from(newest):
            if each.commit_id == expected:
                return
            yield each
            if each.previous == expected:
                return
        if expected is not None and not may_restart:
            raise self.lacks(expected)

    def lacks(self, expected: int) -> PositionsUnreadable:
        """Return the error of a chain that lacks an expected entry."""
        return PositionsUnreadable(
            self._table,
            f"{self._path(expected)} does not precede the newest one. The table may have been restored, "
            "replaced or rebuilt: examine its history",
        )

    def write(self, entry: _Entry) -> None:
        """Write the file of a new entry as JSON. Raises as `put`."""
        self.put(entry.commit_id, msgspec.json.format(msgspec.json.encode(entry), indent=1))

    def put(self, commit_id: int, content: bytes) -> None:
        """Write a new file, before the commit that names it.

        Raises:
            OSError: The file cannot be written.
        """
        write_file(self._files(), self._path(commit_id), content)

    def content(self, commit_id: int, size: int | None = None) -> bytes:
        """Read a file, or a number of leading bytes of it.

        Raises:
            PositionsUnreadable: The file is missing, by two requests.
            TableUnreachable: The file cannot be read at present.
        """
        files, path = self._files(), self._path(commit_id)
        self.files_read += 1
        try:
            try:
                with files.open_input_file(path) as source:
                    content: bytes = source.read(size)
            except FileNotFoundError as error:
                if not is_missing(files, path):
                    raise
                missing = f"the file {path} is missing. {self._way_out}"
                raise PositionsUnreadable(self._table, missing) from error
        except OSError as error:
            raise TableUnreachable(self._table, f"{path} cannot be read: {error}") from None
        return content

    def decoded(self, commit_id: int, decode: Callable[[bytes], _Decoded], content: bytes) -> _Decoded:
        """Decode the content of a file.

        Raises:
            PositionsUnreadable: The content is damaged, or a newer release wrote it.
        """
        try:
            return decode(content)
        except DAMAGED as error:
            raise PositionsUnreadable(
                self._table,
                f"{self._path(commit_id)} cannot be decoded: {error}. Upgrade if a newer release wrote it. "
                f"{self._way_out}",
            ) from error

    def check(self, found: Entry, commit_id: int, arn: str | None) -> None:
        """Check that a file contains what the log names: the commit and, unless it is None, the stream.

        Raises:
            PositionsUnreadable: It contains another commit's or another stream's content.
        """
        if found.commit_id != commit_id:
            other = f"has the content of {found.commit_id}.json"
        elif None not in (arn, found.arn) and arn != found.arn:
            other = f"is of {found.arn}, but it is named for {arn}"
        else:
            return
        raise PositionsUnreadable(
            self._table,
            f"{self._path(commit_id)} {other}: it was overwritten, or restored from another file. "
            f"{self._way_out}",
        )


def write_file(files: pyarrow.fs.FileSystem, path: str, content: bytes) -> None:
    """Write a file of a chain. Raises OSError."""
    with write_new(files, path) as sink:
        sink.write(content)


_MAX_BYTES = 64 << 20
"""The size of a cache: approximate bytes of memory."""


class FileCache:
    """A thread-safe cache of files that never change, decoded. It evicts the least recently used."""

    def __init__(self) -> None:
        self._bytes = 0
        self._files: OrderedDict[int, tuple[Any, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, commit_id: int) -> Any:
        """Return the content of a file; None if it is not in the cache."""
        with self._lock:
            found = self._files.get(commit_id)
            if found is None:
                return None
            self._files.move_to_end(commit_id)
            return found[0]

    def put(self, commit_id: int, value: Any, size: int) -> None:
        """Add the decoded content of a file, which must be immutable, and its size in bytes of memory."""
        with self._lock:
            self._bytes += size - self._files.pop(commit_id, (None, 0))[1]
            self._files[commit_id] = (value, size)
            while self._bytes > _MAX_BYTES:
                _, (_, freed) = self._files.popitem(last=False)
                self._bytes -= freed
