"""Files that the table's log refers to, in a store whose responses may be wrong."""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow.fs
import pytest

from kinesis_assets.errors import PositionsUnreadable, TableUnreachable
from kinesis_assets.table.log.delta_log import read_entry
from kinesis_assets.table.store.referenced_files import read_file

ENTRY = f"_delta_log/{7:020}.json"


@pytest.fixture
def files(tmp_path):
    """A folder with two files that the store says are missing when they are opened."""

    def not_found(path):
        raise FileNotFoundError(path)

    files = pyarrow.fs.SubTreeFileSystem(str(tmp_path), pyarrow.fs.LocalFileSystem())
    files.create_dir("_delta_log")
    for path in ("file", ENTRY):
        files.open_output_stream(path).close()
    return SimpleNamespace(
        open_input_file=not_found, get_file_info=files.get_file_info, delete_file=files.delete_file
    )


def test_a_file_counts_as_missing_only_if_two_requests_say_so(files):
    with pytest.raises(TableUnreachable):
        read_file("table", files, "file")
    files.delete_file("file")
    with pytest.raises(PositionsUnreadable):
        read_file("table", files, "file")


def test_a_log_entry_counts_as_deleted_only_if_two_requests_say_so(files):
    with pytest.raises(FileNotFoundError):
        read_entry(files, 7)
    files.delete_file(ENTRY)
    assert read_entry(files, 7) is None
