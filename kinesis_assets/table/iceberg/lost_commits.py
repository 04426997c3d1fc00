"""Finds commits that the catalog does not know, since it was restored from a backup.

The files of such commits are named by no snapshot, so a vacuum would delete them for good, before anyone can
make the catalog name them again. What shows them are the files of the table's metadata. Each commit writes
one, whose name begins with the number of the one before plus one, and which names that file. An attempt
before which another one committed leaves a file too, but no other file is ever based on it. So two files with
one number that are based on different ones prove that commits are lost, and so does one ahead of the catalog
that is not based on the file that the catalog names. That also holds after runs have committed on top of the
restored version.

The last of the lost commits cannot be distinguished from an attempt that was killed, or that another commit
overtook. While the catalog's version is the one before it, a vacuum deletes nothing, and the next one tries
again.
"""

from __future__ import annotations

import gzip
import re
from collections import defaultdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.errors import TableUnreachable, TableUnsuitable
from kinesis_assets.table.store.storage import DAMAGED, is_missing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pyarrow.fs

    from kinesis_assets.table.iceberg.version import IcebergVersion

ACCEPTED_PROPERTY = "kinesis_assets.lost_commits_accepted"
"""The property with the time up to which an operator gives up commits that the catalog does not know."""

_METADATA = re.compile(r"metadata/(\d+)-[^/]*\.metadata\.json(?:\.gz)?")

_EXAMINED = 16
"""How many numbers with several files are examined, those first whose files differ most in age.

The files of attempts at the same time are written within moments. Between those of a lost commit and
of a later one, the catalog was restored."""

_GZIP = b"\x1f\x8b"


class _Earlier(msgspec.Struct):
    path: str = msgspec.field(name="metadata-file")


class _Metadata(msgspec.Struct):
    """What a file of the metadata says about its table, and those before it, oldest first."""

    table_id: str = msgspec.field(name="table-uuid")
    earlier: list[_Earlier] = msgspec.field(name="metadata-log", default_factory=list)


def unknown_commit(version: IcebergVersion, listed: Iterable[pyarrow.fs.FileInfo]) -> str | None:
    """Return the path of the file of a commit that may be lost, or that is being made; None if there is none.

    Args:
        version: The newest version of the table.
        listed: The files in the table's folder, as they were listed before the version was opened. What is
            committed in between is then part of the version, and a file that a listing does not show yet is
            too young to be deleted.

    Raises:
        TableUnsuitable: Commits are lost.
        TableUnreachable: A file cannot be read.
    """
    name = version.iceberg.metadata_location.rpartition("/")[2]
    known = _METADATA.fullmatch(f"metadata/{name}")
    if known is None:  # such a catalog does not number its versions
        return None
    newest, since = int(known[1]), _accepted(version)
    numbered: defaultdict[int, list[pyarrow.fs.FileInfo]] = defaultdict(list)
    for info in listed:
        found = _METADATA.fullmatch(info.path)
        if found and info.mtime is not None and info.mtime > since:
            numbered[int(found[1])].append(info)
    unknown = None
    ahead = sorted((number for number in numbered if number > newest), reverse=True)
    for info in (info for number in ahead for info in numbered[number]):
        base = _base_of(version, info.path)
        if base not in (None, name):
            raise _lost(version, info.path)
        unknown = unknown if base is None else info.path
    for twins in _by_difference_of_age(numbered, newest):
        paths = twins[0].path, twins[-1].path
        if len({base for base in (_base_of(version, path) for path in paths) if base is not None}) > 1:
            raise _lost(version, paths[0])
    return unknown


def _accepted(version: IcebergVersion) -> datetime:
    text = version.properties.get(ACCEPTED_PROPERTY)
    try:
        found = datetime.fromtimestamp(0, UTC) if text is None else datetime.fromisoformat(text)
    except ValueError:
        raise TableUnsuitable(
            version.uri,
            f"its property {ACCEPTED_PROPERTY} is {text!r}; set a time such as 2026-01-31T12:00:00Z",
        ) from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _by_difference_of_age(
    numbered: Mapping[int, Sequence[pyarrow.fs.FileInfo]], newest: int
) -> list[list[pyarrow.fs.FileInfo]]:
    """Return the files of each number that has several, oldest first, as many as are examined."""
    several = [
        sorted(infos, key=lambda info: info.mtime)
        for number, infos in numbered.items()
        if number <= newest and len(infos) > 1
    ]
    several.sort(key=lambda infos: infos[-1].mtime - infos[0].mtime, reverse=True)
    return several[:_EXAMINED]


def _base_of(version: IcebergVersion, path: str) -> str | None:
    """Return the name of the file on which one of the metadata is based.

    It is None if there is no such file: another maintenance has deleted it, its writer was killed, or it is
    of an older table in the folder.
    """
    files = version.table.files
    try:
        with files.open_input_file(path) as opened:
            content = opened.read()
        text = gzip.decompress(content) if content.startswith(_GZIP) else content
        found = msgspec.json.decode(text, type=_Metadata)
    except (EOFError, *DAMAGED):
        return None
    except OSError as error:
        if is_missing(files, path):
            return None
        raise TableUnreachable(version.uri, f"its {path} cannot be read: {error}") from None
    if found.table_id != version.id or not found.earlier:
        return None
    return found.earlier[-1].path.rpartition("/")[2]


def _lost(version: IcebergVersion, path: str) -> TableUnsuitable:
    return TableUnsuitable(
        version.uri,
        f"has commits that its catalog does not know, such as that of {path}: the catalog names "
        f"{version.iceberg.metadata_location.rpartition('/')[2]}, which is not based on it, as after a "
        "restore of the catalog from a backup. No file was deleted. To get these commits back, pause the "
        "stream, and register the newest of their files metadata/*.metadata.json in the catalog, in place of "
        "the present one. Once the catalog names the version that you want, give up what it does not know: "
        f"set the property {ACCEPTED_PROPERTY} of the table to the present time, such as "
        "2026-01-31T12:00:00Z",
    )
