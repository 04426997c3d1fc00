"""Which rows a replay adds, and what it records about them."""

from __future__ import annotations

import pytest

from kinesis_assets.kinesis.records.records import checksum
from kinesis_assets.operations.replay.outcome import ReplayState
from kinesis_assets.table.positions.positions_chain import positions_path
from kinesis_assets.testing import UserRecord, aggregate
from support.replays import A, B, C, ingest_and_lose, states

pytestmark = pytest.mark.slow


def positions_file(bench) -> tuple[int, bytes]:
    """Return the commit id that the log points at, and the content of its positions file."""
    commit_id = bench.positions.commit_id
    with bench.table.files.open_input_file(positions_path(commit_id)) as source:
        return commit_id, source.read()


def keys(bench):
    return [(row["sequence_number"], row["sub_sequence_number"]) for row in bench.rows]


def test_exactly_the_missing_rows_are_added(bench):
    bench.create()
    bench.put(*range(20))
    bench.run()
    before = keys(bench)
    bench.lose(3, 4, 17)

    result = bench.replay()

    assert states(result) == {A: (ReplayState.FILLED, 3)}
    assert bench.items == list(range(20))
    assert keys(bench) == before
    assert result.version == bench.version


def test_rows_without_a_key_and_unchecked_aggregates_are_restored_unchanged(bench):
    bench.create()
    arn = bench.client.describe().identity.arn
    bench.kinesis.update_stream_mode(StreamARN=arn, StreamModeDetails={"StreamMode": "ON_DEMAND"})
    bench.kinesis.update_stream_record_distribution_strategy(StreamARN=arn, RecordDistributionStrategy="AUTO")
    other_hash_keys = aggregate([UserRecord("k", b"1", "0"), UserRecord("k", b"2", str((1 << 128) - 1))])
    bench.kinesis.put_records(
        StreamName=bench.stream, Records=[{"Data": b"0"}, {"Data": other_hash_keys, "PartitionKey": "k"}]
    )
    bench.run()
    ingested = [(row["data"], row["partition_key"], row["error"]) for row in bench.rows]
    assert sorted(ingested) == [(b"0", None, None), (b"1", "k", None), (b"2", "k", None)]
    bench.lose(0, 2)

    assert states(bench.replay()) == {A: (ReplayState.FILLED, 2)}

    filled = [(row["data"], row["partition_key"], row["error"]) for row in bench.rows]
    assert sorted(filled) == sorted(ingested)


def test_a_replay_without_missing_rows_commits_nothing(bench):
    bench.create()
    bench.put(*range(5))
    bench.run()
    version = bench.version

    result = bench.replay()

    assert states(result) == {A: (ReplayState.WHOLE, 0)}
    assert (result.version, bench.version) == (None, version)


def test_a_replay_does_not_change_the_positions_file(bench):
    ingest_and_lose(bench, 2)
    before = positions_file(bench)

    bench.replay()

    assert positions_file(bench) == before


def test_added_rows_have_their_own_batch_and_statistics_in_the_amendment(bench):
    bench.create()
    numbers = bench.put(*range(10, 20))
    first = bench.run()
    bench.lose(12, 15)

    result = bench.replay(by="someone")

    amendment = bench.amendment
    assert amendment.batch_id == result.batch_id != first.batch_id
    assert amendment.by == "someone"
    stats = amendment.filled[A]
    assert (stats.rows, stats.bytes) == (2, 4)
    assert (stats.first_sequence_number, stats.last_sequence_number) == (numbers[2], numbers[5])
    outcome = result.outcomes[A]
    assert outcome.stats == stats
    filled = [row for row in bench.rows if row["batch_id"] == result.batch_id]
    assert sorted(int(row["data"]) for row in filled) == [12, 15]


def test_the_checksum_covers_exactly_the_added_rows(bench):
    bench.create()
    bench.put(*range(10))
    total = bench.run().outcomes[A].stats.checksum
    bench.lose(*range(9))
    added = bench.replay().outcomes[A].stats.checksum
    (row,) = (row for row in bench.rows if row["data"] == b"9")
    rest = checksum(type("Row", (), row))
    assert added + rest == total


def test_parents_and_children_are_replayed_together(bench):
    bench.create()
    bench.put(0, 1)
    bench.split(A)
    bench.put(2)
    bench.put(3, part=0.9)
    bench.run()
    bench.lose(0, 2, 3)

    result = bench.replay()

    assert states(result) == dict.fromkeys((A, B, C), (ReplayState.FILLED, 1))
    assert bench.items == [0, 1, 2, 3]


def test_a_second_replay_adds_nothing(bench):
    ingest_and_lose(bench, 2)
    bench.replay()

    assert states(bench.replay()) == {A: (ReplayState.WHOLE, 0)}
    assert bench.items == list(range(5))


def test_rows_in_compacted_files_are_recognized(bench):
    bench.create()
    bench.put(*range(5))
    bench.run()
    bench.put(*range(5, 9))
    bench.run()
    bench.delta.optimize.compact()
    bench.lose(2, 7)

    bench.replay()

    assert bench.items == list(range(9))


def test_added_rows_get_the_arrival_date_of_their_records(bench):
    bench.create()
    bench.put(0, 1)
    bench.run()
    bench.later(hours=20)
    bench.put(2, 3)
    bench.run()
    bench.later(hours=1)
    days = {int(row["data"]): row["arrival_date"] for row in bench.rows}
    bench.lose(1, 2)

    bench.replay()

    assert {int(row["data"]): row["arrival_date"] for row in bench.rows} == days
