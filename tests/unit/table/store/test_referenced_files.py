"""Files that the table's log refers to, in a store whose responses may be wrong."""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow.fs
import pytest

from kinesis_assets.errors import PositionsUnreadable, TableUnreachable
from kinesis_assets.table.store.referenced_files import read_file


@pytest.mark.parametrize(("exists", "error"), [(True, TableUnreachable), (False, PositionsUnreadable)])
def test_a_file_counts_as_missing_only_if_two_requests_say_so(tmp_path, exists, error):
    def not_found(path):
        raise FileNotFoundError(path)

    files = pyarrow.fs.SubTreeFileSystem(str(tmp_path), pyarrow.fs.LocalFileSystem())
    if exists:
        files.open_output_stream("file").close()
    wrong = SimpleNamespace(open_input_file=not_found, get_file_info=files.get_file_info)
    with pytest.raises(error, match="file"):
        read_file("table", wrong, "file")
