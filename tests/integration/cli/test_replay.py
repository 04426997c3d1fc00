"""Output and exit codes of `kinesis-assets replay`."""

from __future__ import annotations

import pytest
from deltalake import DeltaTable

A, B = (f"shardId-{number:012d}" for number in range(2))
FIELDS = ["stream", "shard", "state", "error_class", "from", "through", "rows", "bytes", "error"]


@pytest.fixture
def numbers(kinesis, stream) -> list[str]:
    """The sequence numbers of three records in the first of two shards."""
    kinesis.create_stream(StreamName=stream, ShardCount=2)
    entries = [{"Data": b"abc", "PartitionKey": "k", "ExplicitHashKey": "0"}] * 3
    response = kinesis.put_records(StreamName=stream, Records=entries)
    return [record["SequenceNumber"] for record in response["Records"]]


@pytest.fixture
def incomplete(cli, stream_options, numbers, tmp_path) -> list[str]:
    """The same sequence numbers; the table lacks the row of the second."""
    assert cli("run", *stream_options).exit_code == 0
    deleted = DeltaTable(tmp_path / "table").delete(f"sequence_number = '{numbers[1]}'")
    assert deleted["num_deleted_rows"] == 1
    return numbers


@pytest.mark.usefixtures("spark")
class TestReplay:
    def test_json_output_has_one_object_per_shard_with_documented_fields(
        self, cli, stream_options, incomplete, stream
    ):
        done = cli("replay", *stream_options, "--from", "TRIM_HORIZON", "--json")

        assert done.exit_code == 0, done.err
        assert [list(line) for line in done.lines] == [FIELDS, FIELDS]
        assert done.by_shard[A] == {
            "stream": stream,
            "shard": A,
            "state": "filled",
            "error_class": None,
            "from": "TRIM_HORIZON",
            "through": f"AFTER_SEQUENCE_NUMBER:{incomplete[2]}",
            "rows": 1,
            "bytes": 3,
            "error": None,
        }
        assert (done.by_shard[B]["state"], done.by_shard[B]["rows"]) == ("unread", 0)

    def test_a_range_of_sequence_numbers_of_one_shard_is_replayed(
        self, cli, stream_options, incomplete, tmp_path
    ):
        window = ["--from", incomplete[1], "--to", incomplete[1], "--shard", A]
        first = cli("replay", *stream_options, *window, "--json")
        again = cli("replay", *stream_options, *window, "--json")

        assert [done.by_shard[A]["state"] for done in (first, again)] == ["filled", "whole"]
        assert DeltaTable(tmp_path / "table").to_pyarrow_table().num_rows == 3

    def test_a_failed_shard_is_reported_and_the_exit_code_is_1(self, cli, stream_options, incomplete, faults):
        faults.fail(status=400, code="AccessDeniedException", shard_id=A)
        done = cli("replay", *stream_options, "--from", incomplete[0], "--shard", A, "--json")

        assert done.exit_code == 1
        assert done.by_shard[A]["state"] == "failed"
        assert done.by_shard[A]["error_class"] == "ReadFailed"
        assert "AccessDenied" in done.by_shard[A]["error"]

    @pytest.mark.usefixtures("incomplete")
    def test_a_vanished_shard_is_reported_beside_the_others(self, cli, stream_options, faults):
        faults.answer("ListShards", lambda _, response: response.but(Shards=response.members["Shards"][1:]))
        done = cli("replay", *stream_options, "--from", "TRIM_HORIZON", "--json")

        assert done.exit_code == 1
        assert (done.by_shard[A]["state"], done.by_shard[A]["error_class"]) == ("failed", "ShardVanished")
        assert (done.by_shard[B]["state"], done.by_shard[B]["error"]) == ("unread", None)


def test_an_unparsable_range_is_bad_input(cli, stream_options):
    done = cli("replay", *stream_options, "--from", "yesterday")

    assert (done.exit_code, done.out) == (2, "")
    assert "'yesterday'" in done.err
