"""Output and exit codes of `kinesis-assets positions`."""

from __future__ import annotations

import pytest

from support.command_line import single_line_error
from support.mentions import assert_mentions

A, B, C = (f"shardId-{number:012d}" for number in range(3))


@pytest.mark.usefixtures("spark")
class TestPositions:
    def test_json_output_has_one_object_per_shard_with_its_parents(
        self, cli, stream_options, sequence_numbers, kinesis, stream
    ):
        kinesis.merge_shards(StreamName=stream, ShardToMerge=A, AdjacentShardToMerge=B)
        assert cli("run", *stream_options).exit_code == 0

        done = cli("positions", *stream_options, "--json")

        assert done.exit_code == 0
        assert {key: (line["parents"], line["state"]) for key, line in done.by_shard.items()} == {
            A: ([], "finished"),
            B: ([], "finished"),
            C: ([A, B], "open"),
        }
        assert [line["shard"] for line in done.lines] == [A, B, C]
        assert {line["stream"] for line in done.lines} == {stream}
        for shard_id, number in sequence_numbers.items():
            assert done.by_shard[shard_id]["position"] == f"AFTER_SEQUENCE_NUMBER:{number}"
            assert done.by_shard[shard_id]["last_arrival"].endswith("+00:00")
        assert done.by_shard[C]["last_arrival"] is None
        assert done.by_shard[C]["tip_time"].endswith("+00:00")

    @pytest.mark.usefixtures("sequence_numbers")
    def test_default_output_is_a_table_with_a_header(self, cli, stream_options):
        cli("run", *stream_options)
        header, *rows = (line.split() for line in cli("positions", *stream_options).out.splitlines())
        assert header[:4] == ["shard", "parents", "state", "position"]
        assert [row[:3] for row in rows] == [[A, "-", "open"], [B, "-", "open"]]


@pytest.mark.usefixtures("sequence_numbers", "spark")
def test_positions_include_those_given_up_of_a_recreated_stream(cli, stream_options, stream, faults):
    assert cli("run", *stream_options, "--shard", A).exit_code == 0
    before = cli("positions", *stream_options, "--json").by_shard
    faults.recreate(stream)
    assert cli("run", *stream_options, "--on-recreated", "restart").exit_code == 0

    *now, first, second = cli("positions", *stream_options, "--json").lines
    assert [(line["shard"], line["state"]) for line in now] == [(A, "open"), (B, "open")]
    assert {line["shard"]: line["position"] for line in (first, second)} == {
        shard_id: line["position"] for shard_id, line in before.items()
    }
    for line in (first, second):
        assert line["state"] == "given_up"
        assert "was deleted" in line["gaps"][0]


@pytest.mark.usefixtures("sequence_numbers")
def test_positions_before_the_first_run_report_that_there_is_no_table(cli, stream_options):
    done = cli("positions", *stream_options)
    assert done.exit_code == 1
    assert_mentions(single_line_error(done.err), "no table", "first run")


@pytest.mark.usefixtures("sequence_numbers")
def test_positions_of_a_missing_table_create_no_folder(cli, stream_options, tmp_path):
    cli("positions", *stream_options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("sequence_numbers")
def test_positions_read_no_records(cli, stream_options, faults):
    cli("positions", *stream_options)
    assert faults.count("GetShardIterator") == faults.count("GetRecords") == 0
