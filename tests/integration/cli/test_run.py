"""Output and exit codes of `kinesis-assets run`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster as dg
import pytest
from deltalake import DeltaTable

from support.command_line import single_line_error
from support.mentions import assert_mentions
from support.stream_names import raw_key, shard_partitions

if TYPE_CHECKING:
    from pathlib import Path

A, B, C, D = (f"shardId-{number:012d}" for number in range(4))
FIELDS = [
    "stream",
    "shard",
    "state",
    "error_class",
    "from",
    "through",
    "rows",
    "bytes",
    "bad_records",
    "outside_hash_range",
    "lag_ms",
    "time_to_loss_ms",
    "gaps",
    "error",
]


@pytest.mark.usefixtures("spark")
class TestRun:
    def test_json_output_has_one_object_per_shard_with_documented_fields(
        self, cli, stream_options, sequence_numbers, stream
    ):
        done = cli("run", *stream_options, "--json")

        assert done.exit_code == 0
        assert [list(line) for line in done.lines] == [FIELDS, FIELDS]
        assert done.by_shard == {
            shard_id: {
                "stream": stream,
                "shard": shard_id,
                "state": "committed",
                "error_class": None,
                "from": "TRIM_HORIZON",
                "through": f"AFTER_SEQUENCE_NUMBER:{number}",
                "rows": 1,
                "bytes": 3,
                "bad_records": 0,
                "outside_hash_range": 0,
                "lag_ms": 0,
                "time_to_loss_ms": 86_400_000,
                "gaps": None,
                "error": None,
            }
            for shard_id, number in sequence_numbers.items()
        }

    def test_the_next_run_resumes_where_the_last_one_ended(
        self, cli, stream_options, sequence_numbers, tmp_path
    ):
        cli("run", *stream_options)
        done = cli("run", *stream_options, "--json")

        assert done.exit_code == 0
        assert {key: (line["from"], line["rows"]) for key, line in done.by_shard.items()} == {
            shard_id: (f"AFTER_SEQUENCE_NUMBER:{number}", 0) for shard_id, number in sequence_numbers.items()
        }
        assert DeltaTable(tmp_path / "table").to_pyarrow_table().num_rows == 2

    @pytest.mark.usefixtures("sequence_numbers")
    def test_default_output_is_a_table_with_a_header(self, cli, stream_options):
        done = cli("run", *stream_options)
        header, *rows = (line.split() for line in done.out.splitlines())
        assert header == [name for name in FIELDS if name != "stream"]
        assert {(row[0], row[1], row[-1]) for row in rows} == {(A, "committed", "-"), (B, "committed", "-")}
        assert {row[2] for row in rows} == {"-"}

    @pytest.mark.usefixtures("sequence_numbers")
    def test_only_the_named_shard_is_run(self, cli, stream_options):
        done = cli("run", *stream_options, "--shard", B, "--json")
        assert done.exit_code == 0
        assert done.by_shard.keys() == {B}

    @pytest.mark.usefixtures("sequence_numbers")
    def test_the_first_run_starts_at_the_given_start(self, cli, stream_options):
        done = cli("run", *stream_options, "--start", "AT_TIMESTAMP:2026-01-01T00:00:00Z", "--json")
        assert {line["from"] for line in done.lines} == {"AT_TIMESTAMP:2026-01-01T00:00:00Z"}

    def test_a_finished_shard_is_not_a_failure(self, cli, stream_options, sequence_numbers, kinesis, stream):
        kinesis.merge_shards(StreamName=stream, ShardToMerge=A, AdjacentShardToMerge=B)
        done = cli("run", *stream_options, "--json")
        assert done.exit_code == 0
        states = {shard_id: line["state"] for shard_id, line in done.by_shard.items()}
        assert states == {A: "finished", B: "finished", C: "committed"}
        assert [done.by_shard[shard_id]["rows"] for shard_id in sequence_numbers] == [1, 1]
        # A run leaves finished shards out by default. Requesting one by name is not an error.
        assert cli("run", *stream_options, "--json").by_shard.keys() == {C}
        again = cli("run", *stream_options, "--shard", A, "--json")
        assert (again.exit_code, again.by_shard[A]["state"]) == (0, "finished")

    @pytest.mark.usefixtures("sequence_numbers", "dagster_home")
    def test_a_run_is_recorded_in_the_instance_of_dagster_home(self, cli, stream_options, stream):
        assert cli("run", *stream_options).exit_code == 0

        with dg.DagsterInstance.get() as instance:
            (run,) = instance.get_runs()
            assert run.status is dg.DagsterRunStatus.SUCCESS
            assert instance.get_dynamic_partitions(str(shard_partitions(stream).name)) == [A, B]
            assert instance.get_materialized_partitions(raw_key(stream)) == {A, B}

    @pytest.mark.usefixtures("sequence_numbers", "dagster_home")
    def test_only_the_named_shard_is_run_although_all_are_partitions(self, cli, stream_options):
        cli("run", *stream_options)
        done = cli("run", *stream_options, "--shard", A, "--json")
        assert done.exit_code == 0
        assert done.by_shard.keys() == {A}

    @pytest.mark.usefixtures("sequence_numbers")
    def test_a_failed_shard_is_in_the_json_output_and_the_exit_code_is_1(self, cli, stream_options, fail):
        fail(B)
        done = cli("run", *stream_options, "--json")

        assert done.exit_code == 1
        assert done.by_shard[A]["state"] == "committed"
        assert done.by_shard[A]["rows"] == 1
        failed = done.by_shard[B]
        assert list(failed) == FIELDS
        assert (failed["state"], failed["rows"]) == ("failed", 0)
        assert failed["lag_ms"] >= 0
        assert failed["error_class"] == "ReadFailed"
        assert "AccessDeniedException" in failed["error"]
        assert "Traceback" not in done.out + done.err

    @pytest.mark.usefixtures("sequence_numbers")
    def test_a_failed_shard_is_in_the_default_output_and_the_exit_code_is_1(self, cli, stream_options, fail):
        fail(A)
        done = cli("run", *stream_options)
        assert done.exit_code == 1
        (line,) = (line for line in done.out.splitlines() if line.startswith(A))
        assert line.split()[1:3] == ["failed", "ReadFailed"]
        assert "AccessDeniedException" in line

    def test_a_waiting_child_makes_the_exit_code_1(
        self, cli, stream_options, sequence_numbers, kinesis, stream
    ):
        del sequence_numbers
        kinesis.merge_shards(StreamName=stream, ShardToMerge=A, AdjacentShardToMerge=B)
        done = cli("run", *stream_options, "--shard", C, "--json")
        assert done.exit_code == 1
        assert (done.by_shard[C]["state"], done.by_shard[C]["error_class"]) == ("waiting", "ParentUnfinished")

    @pytest.mark.usefixtures("sequence_numbers")
    def test_a_table_of_another_kind_is_refused_in_one_line(self, cli, stream_options, tmp_path):
        import pyarrow as pa  # noqa: PLC0415
        from deltalake import write_deltalake  # noqa: PLC0415

        write_deltalake(tmp_path / "table", pa.table({"n": [1]}))
        done = cli("run", *stream_options)
        assert done.exit_code == 1
        assert_mentions(single_line_error(done.err), tmp_path / "table", "stream, shard_id")
        assert done.out == ""


def test_a_missing_stream_is_reported_in_one_line(cli, stream_options, stream):
    done = cli("run", *stream_options)
    assert done.exit_code == 1
    assert f"stream {stream}: not found" in single_line_error(done.err)


def test_an_unreachable_endpoint_is_reported_after_a_bounded_number_of_retries(
    cli, stream, tmp_path, sdk_waits
):
    options = ["--stream", stream, "--table", str(tmp_path), "--endpoint-url", "http://127.0.0.1:1"]

    done = cli("run", *options)

    assert done.exit_code == 1
    assert "127.0.0.1:1" in single_line_error(done.err)
    assert 0 < len(sdk_waits) <= 5
    assert sum(sdk_waits) < 60


@pytest.mark.usefixtures("sequence_numbers")
def test_a_file_in_place_of_a_table_is_reported_in_one_line(cli, stream, settings, tmp_path):
    (tmp_path / "file").write_text("no table")
    endpoint = ["--endpoint-url", settings.endpoint_url]
    done = cli("run", "--stream", stream, "--table", str(tmp_path / "file"), *endpoint)
    assert done.exit_code == 1
    assert "table " in single_line_error(done.err)


def test_output_lists_parents_before_children(cli, stream_options, sequence_numbers):
    done = cli("run", *stream_options, "--json")
    assert [line["shard"] for line in done.lines] == sorted(sequence_numbers)


def test_the_installed_script_prints_only_json_and_creates_only_the_table(
    script, stream_options, sequence_numbers, tmp_path: Path
):
    done = script("run", *stream_options, "--json")
    assert done.exit_code == 0, done.err
    assert done.by_shard.keys() == sequence_numbers.keys()
    assert "Traceback" not in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["table"]


def test_the_installed_script_reports_bad_input_in_one_line(script, stream_options):
    done = script("run", *stream_options, "--start", "YESTERDAY")
    assert done.exit_code == 2
    assert "invalid position 'YESTERDAY'" in single_line_error(done.err)


@pytest.mark.usefixtures("spark")
def test_a_run_applies_a_setting(cli, stream_options, kinesis, stream):
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    kinesis.put_records(StreamName=stream, Records=[{"Data": b"abc", "PartitionKey": "k"}] * 3)
    done = cli("run", *stream_options, "--set", "max_records=2", "--json")
    assert done.exit_code == 0
    assert [line["rows"] for line in done.lines] == [2]
