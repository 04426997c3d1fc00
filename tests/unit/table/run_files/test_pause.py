"""The file of a pause: written as a whole, and never mistaken for none."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow.fs
import pytest

from kinesis_assets.errors import InvalidInput, PauseUnreadable, StreamPaused
from kinesis_assets.table.raw_table import PositionedTable
from kinesis_assets.table.run_files.pause import PAUSE_FILE, pause, read_pause, refuse_paused, resume
from kinesis_assets.table.store.storage import replace_file
from support.mentions import assert_mentions

AT = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.fixture
def file(table) -> Path:
    return Path(table.uri, PAUSE_FILE)


def test_a_pause_is_read_by_every_process_until_it_is_resumed(table):
    assert read_pause(table) is None
    pause(table, reason="schema change", by="ann", at=AT)
    found = read_pause(PositionedTable(table.uri))
    assert (found.reason, found.by, found.at) == ("schema change", "ann", AT)
    resume(PositionedTable(table.uri))
    assert read_pause(table) is None
    resume(table)  # twice is the same


def test_the_error_names_reason_author_time_and_way_out(table):
    pause(table, reason="schema  change.", by="ann", at=AT)
    with pytest.raises(StreamPaused) as caught:
        refuse_paused("clicks", table)
    assert str(caught.value).startswith("stream clicks: ")
    assert_mentions(str(caught.value), "ann", "2026-01-31T12:00:00Z", ": schema change. ")
    assert "`kinesis-assets resume`" in str(caught.value)


def test_a_pause_of_an_older_release_is_read_and_names_the_command_without_its_options(table, file):
    file.parent.mkdir(parents=True)
    file.write_bytes(b'{"format": 1, "reason": "a", "by": "b", "at": "2026-01-31T12:00:00Z"}')
    assert "`kinesis-assets resume`" in str(read_pause(table))


def test_a_second_pause_replaces_the_first(table):
    pause(table, reason="a", by="ann", at=AT)
    pause(table, reason="b", by="bob", at=AT)
    assert (read_pause(table).reason, read_pause(table).by) == ("b", "bob")
    assert [path.name for path in Path(table.uri, PAUSE_FILE).parent.iterdir()] == ["pause.json"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"null",
        b"\xff\xfe",
        b'{"format": 1}',
        b'{"format": 3, "reason": "a", "by": "b", "at": "2026-01-31T12:00:00Z"}',
        b'{"format": 1, "reason": "a", "by": "b", "at": "2026-01-31T12:00:00Z", "more": 1}',
    ],
)
def test_a_damaged_file_is_neither_a_pause_nor_none(table, file, content):
    file.parent.mkdir(parents=True)
    file.write_bytes(content)
    with pytest.raises(PauseUnreadable, match=r"unknown.*kinesis-assets resume"):
        refuse_paused("clicks", table)
    resume(table)
    assert read_pause(table) is None


def test_a_file_that_cannot_be_read_is_neither_a_pause_nor_none(table, file):
    file.mkdir(parents=True)
    with pytest.raises(PauseUnreadable, match=PAUSE_FILE):
        refuse_paused("clicks", table)


def test_a_pause_that_cannot_be_written_is_reported(table, file):
    file.parent.parent.mkdir()
    file.parent.touch()  # a file where the folder belongs
    with pytest.raises(PauseUnreadable, match=PAUSE_FILE):
        pause(table, reason="a", by="ann", at=AT)


@pytest.mark.parametrize("reason", ["", " ", ".", "a" * 501, "a\x00b"])
def test_an_invalid_reason_is_refused(table, file, reason):
    with pytest.raises(InvalidInput, match="invalid reason"):
        pause(table, reason=reason, by="ann", at=AT)
    assert not file.exists()


def test_a_file_is_replaced_as_a_whole(tmp_path):
    files = pyarrow.fs.SubTreeFileSystem(str(tmp_path), pyarrow.fs.LocalFileSystem())
    replace_file(files, "folder/file", b"old")
    with (tmp_path / "folder" / "file").open("rb") as reader:
        replace_file(files, "folder/file", b"new content")
        assert reader.read() == b"old"  # it was not overwritten in place
    assert (tmp_path / "folder" / "file").read_bytes() == b"new content"
