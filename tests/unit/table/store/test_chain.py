"""Chains of files: which of them are believed, and where a walk ends."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace

import pyarrow.fs
import pytest

from kinesis_assets.errors import PositionsUnreadable, TableUnreachable
from kinesis_assets.table.delta.log import read_entry
from kinesis_assets.table.positions.amendments import Amendment, amendment_chain, amendment_path

ENTRY = f"_delta_log/{7:020}.json"


AT = datetime(2026, 6, 1, tzinfo=UTC)


def amendment(commit_id, previous=None, arn="arn:orders"):
    """Return an amendment whose batch has the id of its commit."""
    return Amendment(format=2, commit_id=commit_id, previous=previous, batch_id=commit_id, at=AT, arn=arn)


@pytest.fixture
def folder(tmp_path):
    folder = pyarrow.fs.SubTreeFileSystem(str(tmp_path), pyarrow.fs.LocalFileSystem())
    folder.create_dir("_delta_log")
    return folder


@pytest.fixture
def chain(folder):
    """A chain of the commits 1 to 4, as another process opens it."""
    chain = amendment_chain("table", lambda: folder)
    for commit_id in range(1, 5):
        chain.write(amendment(commit_id, commit_id - 1 or None))
    return amendment_chain("table", lambda: folder)


@pytest.fixture
def files(folder):
    """A folder that says of each file that it is missing when it is opened."""

    def not_found(path):
        raise FileNotFoundError(path)

    folder.open_output_stream(ENTRY).close()
    return SimpleNamespace(
        open_input_file=not_found, get_file_info=folder.get_file_info, delete_file=folder.delete_file
    )


def ids(entries):
    return [entry.commit_id for entry in entries]


@pytest.mark.usefixtures("chain")
def test_a_file_counts_as_missing_only_if_two_requests_say_so(files):
    doubtful = amendment_chain("table", lambda: files)
    with pytest.raises(TableUnreachable):
        doubtful.at(4)
    files.delete_file(amendment_path(4))
    with pytest.raises(PositionsUnreadable, match=r"4\.json is missing"):
        doubtful.at(4)


def test_a_file_is_believed_only_if_it_names_its_commit(chain, folder):
    folder.move(amendment_path(3), amendment_path(2))
    with pytest.raises(PositionsUnreadable, match=r"2\.json has the content of 3\.json"):
        chain.at(2)


def test_a_file_is_believed_only_if_it_names_the_stream_for_which_it_is_named(chain):
    assert chain.at(4, "arn:orders") == chain.at(4)
    for _ in range(2):  # the second time it is in the cache
        with pytest.raises(
            PositionsUnreadable, match=r"4\.json is of arn:orders, but it is named for arn:other"
        ):
            chain.at(4, "arn:other")


def test_a_file_that_names_no_stream_is_believed(folder):
    chain = amendment_chain("table", lambda: folder)
    chain.write(amendment(1, arn=None))
    assert chain.at(1, "arn:orders").arn is None


def test_a_predecessor_of_another_stream_is_not_believed(chain):
    chain.write(amendment(3, 2, arn="arn:other"))
    with pytest.raises(PositionsUnreadable, match=r"3\.json is of arn:other"):
        list(chain.back_from(chain.at(4)))


def test_a_wrong_file_can_be_replaced_by_the_original_one(chain):
    chain.write(amendment(4, 3, arn="arn:other"))
    with pytest.raises(PositionsUnreadable):
        chain.at(4, "arn:orders")
    chain.write(amendment(4, 3))
    assert chain.at(4, "arn:orders").previous == 3


def test_a_walk_yields_the_entries_after_the_expected_one_and_does_not_read_that(chain, folder):
    folder.delete_file(amendment_path(2))
    assert ids(chain.since(chain.at(4), 2)) == [4, 3]


@pytest.mark.parametrize(("expected", "found"), [(4, []), (None, [4, 3, 2, 1])])
def test_a_walk_ends_at_the_newest_entry_or_at_the_first(chain, expected, found):
    assert ids(chain.since(chain.at(4), expected)) == found


def test_a_chain_without_the_expected_entry_is_broken_unless_it_may_have_been_started_again(chain):
    with pytest.raises(PositionsUnreadable, match=r"7\.json does not precede"):
        list(chain.since(chain.at(4), 7))
    with pytest.raises(PositionsUnreadable, match=r"7\.json does not precede"):
        list(chain.since(None, 7))
    assert ids(chain.since(chain.at(4), 7, may_restart=True)) == [4, 3, 2, 1]


def test_a_log_entry_counts_as_deleted_only_if_two_requests_say_so(files):
    with pytest.raises(FileNotFoundError):
        read_entry(files, 7)
    files.delete_file(ENTRY)
    assert read_entry(files, 7) is None
