"""Chains of positions files: which files are written and read."""

from __future__ import annotations

import msgspec
import pytest

from benchmarks.data.busy_stream import BusyStream
from benchmarks.sections.chain import MAX_BYTES, THREE_DAYS, mean_bytes
from kinesis_assets.errors import PositionsUnreadable
from kinesis_assets.kinesis.position import Position
from kinesis_assets.table.positions import positions_file
from kinesis_assets.table.positions.positions_chain import ChainPolicy
from support.stored_positions import shard_after, shard_at


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("moving", [1, 10, 100])
def test_commits_each_second_on_a_thousand_shards_take_at_most_ten_gigabytes_in_three_days(moving):
    assert mean_bytes(1000, moving) * THREE_DAYS < MAX_BYTES


@pytest.mark.slow
def test_positions_of_many_moving_shards_are_read_from_two_files(chain_of):
    stream, folder = BusyStream(300), chain_of()
    for _ in range(9):
        added = stream.advance(300)
        folder.follow(stream.shards, added=added)
        files, found = folder.read()
        assert found == folder.newest
        assert files <= 2


def moved(named, shard_id, number, **rest):
    return named | {
        shard_id: msgspec.structs.replace(named[shard_id], position=Position.after(str(number)), **rest)
    }


@pytest.mark.slow
def test_the_newest_positions_are_read_from_two_files_after_many_commits(chain_of):
    folder = chain_of()
    named = {str(shard): shard_at() for shard in range(10)}
    for number in range(150):
        folder.follow(named := moved(named, str(number % 10), number))
        files, found = folder.read()
        assert found == folder.newest
        assert files <= 2


def test_a_process_reads_each_file_once(chain_of):
    folder = chain_of()
    for number in range(5):
        folder.follow({"a": shard_after(number)})
    chain = folder.reopened()
    for _ in range(3):
        chain.positions_at(folder.newest.commit_id)
        list(chain.commits_before(folder.newest))
    assert chain.files_read == 2


def test_an_earlier_file_of_another_stream_is_not_believed(chain_of):
    folder = chain_of(ChainPolicy(max_files=0))
    older = folder.follow({"a": shard_at()})
    folder.follow({"a": shard_after(1)})
    other = msgspec.structs.replace(older.identity, arn=f"{older.arn}-other")
    content = positions_file.encode(msgspec.structs.replace(older, identity=other))
    folder.path(older).write_bytes(content)
    with pytest.raises(PositionsUnreadable, match=f"{older.commit_id}.json is of {other.arn}"):
        list(folder.reopened().since(folder.newest, None))


def test_earlier_commits_are_read_from_few_files(chain_of):
    folder = chain_of(ChainPolicy(max_files=9))
    made = [folder.follow({"a": shard_after(number)}) for number in range(40)]
    chain = folder.reopened()
    found = list(chain.commits_before(folder.newest))
    assert found == [(each.commit_id, each.batch_id) for each in reversed(made[:-1])]
    assert chain.files_read == 8  # four bases, and the last file before each


def test_with_few_moving_shards_a_base_is_written_when_repeated_changes_cost_as_much(chain_of):
    folder = chain_of(ChainPolicy(min_repeated=20))
    named = {str(shard): shard_at() for shard in range(20)}
    made = [folder.follow(named := moved(named, str(number % 20), number)) for number in range(30)]
    bases = [number for number, each in enumerate(made) if folder.header(each).base is None]
    assert bases[:2] == [0, 7]  # 0 + 1 + ... + 6 shards were repeated


def test_with_all_shards_moving_bases_are_rare(chain_of):
    folder = chain_of(ChainPolicy(max_files=9, min_repeated=0))
    made = [folder.follow({str(shard): shard_after(number) for shard in range(20)}) for number in range(21)]
    assert [number for number, each in enumerate(made) if folder.header(each).base is None] == [
        0,
        10,
        20,
    ]


@pytest.mark.parametrize("has_base", [True, False])
def test_a_file_of_another_commit_is_refused_and_not_cached(chain_of, has_base):
    folder = chain_of(ChainPolicy() if has_base else ChainPolicy(max_files=0))
    first, second, third = (folder.follow({"a": shard_after(number)}) for number in range(3))
    path, other = (folder.path(each) for each in (third, second))
    right = path.read_bytes()
    path.write_bytes(other.read_bytes())
    chain = folder.reopened()
    for read in (chain.positions_at, chain.header_at):
        with pytest.raises(PositionsUnreadable, match=rf"{third.commit_id}.*{second.commit_id}.*Restore"):
            read(third.commit_id)
    path.write_bytes(right)
    assert chain.positions_at(third.commit_id) == third
    assert chain.positions_at(first.commit_id) == first


def test_a_header_that_is_longer_than_the_first_bytes_is_read_with_the_whole_file(chain_of, monkeypatch):
    folder = chain_of()
    positions = folder.follow({"a": shard_after(1)})
    header = folder.header(positions)
    monkeypatch.setattr(positions_file, "HEADER_BYTES", 20)
    assert folder.header(positions) == header


def test_an_error_names_the_missing_base(chain_of):
    folder = chain_of()
    base, _, newest = (folder.follow({"a": shard_after(number)}) for number in range(3))
    folder.path(base).unlink()
    with pytest.raises(PositionsUnreadable, match=f"{base.commit_id}.json.*Restore"):
        folder.reopened().positions_at(newest.commit_id)
