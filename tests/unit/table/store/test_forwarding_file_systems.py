"""A table whose rows are not in its folder."""

from __future__ import annotations

from dataclasses import replace

import pyarrow.fs
import pytest

from kinesis_assets.table.store.storage import TableFolder, files_below, files_in, replace_file, write_new


@pytest.fixture
def folder(tmp_path):
    """A table's folder, and another one with its rows."""
    for path in ("own/_kinesis/positions", "rows/data", "rows/_kinesis_rows"):
        (tmp_path / path).mkdir(parents=True)
    return replace(TableFolder.at(str(tmp_path / "own")), rows=TableFolder.at(str(tmp_path / "rows")))


def written(tmp_path):
    return {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}


def test_only_the_folder_of_the_positions_is_not_with_the_rows(folder, tmp_path):
    files = folder.open()
    for path in ("_kinesis/positions/1", "data/1.parquet", "_kinesis_rows/1"):
        write_new(files, path).close()
    replace_file(files, "_kinesis/pause.json", b"{}")
    assert written(tmp_path) == {
        "own/_kinesis/positions/1",
        "own/_kinesis/pause.json",
        "rows/data/1.parquet",
        "rows/_kinesis_rows/1",
    }


def test_files_are_found_by_the_paths_with_which_they_were_written(folder):
    files = folder.open()
    for path in ("data/1.parquet", "_kinesis/positions/1", "_kinesis/positions/2"):
        with write_new(files, path) as file:
            file.write(path.encode())
    with files.open_input_file("_kinesis/positions/2") as file:
        assert file.read() == b"_kinesis/positions/2"
    assert [info.path for info in files_below(files)] == ["data/1.parquet"]
    assert {info.path for info in files_in(files, "_kinesis/positions")} == {
        "_kinesis/positions/1",
        "_kinesis/positions/2",
    }
    infos = files.get_file_info(["data/1.parquet", "_kinesis/positions/1", "data/2.parquet"])
    assert [(info.path, info.size) for info in infos[:2]] == [
        ("data/1.parquet", 14),
        ("_kinesis/positions/1", 20),
    ]
    assert infos[2].type is pyarrow.fs.FileType.NotFound
    files.delete_file("data/1.parquet")
    assert files_below(files) == []
