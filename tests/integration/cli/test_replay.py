"""`kinesis-assets replay`: what it prints, and how it ends."""

from __future__ import annotations

import pytest
from deltalake import DeltaTable

A, B = (f"shardId-{number:012d}" for number in range(2))
FIELDS = ["stream", "shard", "state", "error_class", "from", "through", "rows", "bytes", "error"]


@pytest.fixture
def put(kinesis, stream) -> list[str]:
    """A stream of two shards, with three records of three bytes in the first; their sequence numbers."""
    kinesis.create_stream(StreamName=stream, ShardCount=2)
    entries = [{"Data": b"abc", "PartitionKey": "k", "ExplicitHashKey": "0"}] * 3
    answer = kinesis.put_records(StreamName=stream, Records=entries)
    return [record["SequenceNumber"] for record in answer["Records"]]


@pytest.fixture
def holed(cli, stream_options, put, tmp_path) -> list[str]:
    """The same in a table that lacks the second."""
    assert cli("run", *stream_options).exit_code == 0
    deleted = DeltaTable(tmp_path / "table").delete(f"sequence_number = '{put[1]}'")
    assert deleted["num_deleted_rows"] == 1
    return put


@pytest.mark.usefixtures("spark")
class TestReplay:
    def test_json_is_a_line_per_shard_with_exactly_the_named_fields(self, cli, stream_options, holed, stream):
        done = cli("replay", *stream_options, "--from", "TRIM_HORIZON", "--json")

        assert done.exit_code == 0, done.err
        assert [list(line) for line in done.lines] == [FIELDS, FIELDS]
        assert done.by_shard[A] == {
            "stream": stream,
            "shard": A,
            "state": "filled",
            "error_class": None,
            "from": "TRIM_HORIZON",
            "through": f"AFTER_SEQUENCE_NUMBER:{holed[2]}",
            "rows": 1,
            "bytes": 3,
            "error": None,
        }
        assert (done.by_shard[B]["state"], done.by_shard[B]["rows"]) == ("unread", 0)

    def test_a_span_of_sequence_numbers_of_a_shard(self, cli, stream_options, holed, tmp_path):
        span = ["--from", holed[1], "--to", holed[1], "--shard", A]
        first = cli("replay", *stream_options, *span, "--json")
        again = cli("replay", *stream_options, *span, "--json")

        assert [done.by_shard[A]["state"] for done in (first, again)] == ["filled", "whole"]
        assert DeltaTable(tmp_path / "table").to_pyarrow_table().num_rows == 3

    def test_what_cannot_be_read_ends_with_1_and_is_told(self, cli, stream_options, holed, faults):
        faults.fail(status=400, code="AccessDeniedException", shard_id=A)
        done = cli("replay", *stream_options, "--from", holed[0], "--shard", A, "--json")

        assert done.exit_code == 1
        assert done.by_shard[A]["state"] == "failed"
        assert done.by_shard[A]["error_class"] == "ReadFailed"
        assert "AccessDenied" in done.by_shard[A]["error"]

    @pytest.mark.usefixtures("holed")
    def test_a_shard_that_each_list_leaves_out_ends_with_1_beside_the_others(
        self, cli, stream_options, faults
    ):
        faults.answer("ListShards", lambda _, answer: answer.but(Shards=answer.members["Shards"][1:]))
        done = cli("replay", *stream_options, "--from", "TRIM_HORIZON", "--json")

        assert done.exit_code == 1
        assert (done.by_shard[A]["state"], done.by_shard[A]["error_class"]) == ("failed", "ShardVanished")
        assert (done.by_shard[B]["state"], done.by_shard[B]["error"]) == ("unread", None)

    @pytest.mark.parametrize(
        ("arguments", "reason"),
        [
            (["--from", "TRIM_HORIZON", "--shard", "../nowhere"], "has no shard '../nowhere'"),
            (["--from", "49"], "name one shard"),
        ],
    )
    @pytest.mark.usefixtures("holed")
    def test_a_span_that_does_not_fit_the_stream_ends_with_2(self, cli, stream_options, arguments, reason):
        done = cli("replay", *stream_options, *arguments)

        assert (done.exit_code, done.out) == (2, "")
        assert reason in done.err


def test_a_span_that_cannot_be_read_ends_with_2(cli, stream_options):
    done = cli("replay", *stream_options, "--from", "yesterday")

    assert (done.exit_code, done.out) == (2, "")
    assert "use a sequence number or a time" in done.err
