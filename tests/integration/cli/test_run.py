"""`kinesis-assets run` and `positions`: what they print, and how they end."""

from __future__ import annotations

import socket
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import botocore.endpoint
import dagster as dg
import pytest
from deltalake import DeltaTable

from kinesis_assets.dagster.names import raw_key, shard_partitions
from support.command_line import single_line_error

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


@pytest.fixture
def put(kinesis: Any, stream: str) -> dict[str, str]:
    """A stream of two shards, with a record of three bytes in each; their sequence numbers."""
    kinesis.create_stream(StreamName=stream, ShardCount=2)
    entries = [{"Data": b"abc", "PartitionKey": "k", "ExplicitHashKey": str(key)} for key in (0, 2**128 - 1)]
    answer = kinesis.put_records(StreamName=stream, Records=entries)
    return {record["ShardId"]: record["SequenceNumber"] for record in answer["Records"]}


@pytest.fixture
def fail(faults):
    """Lets a shard's reads be refused."""

    def fail(shard_id: str) -> None:
        faults.fail(status=400, code="AccessDeniedException", shard_id=shard_id)

    return fail


@pytest.fixture
def dagster_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An instance that outlives a command."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "dagster.yaml").touch()
    monkeypatch.setenv("DAGSTER_HOME", str(home))


# run, well


@pytest.mark.usefixtures("spark")
class TestRun:
    def test_json_is_a_line_per_shard_with_exactly_the_named_fields(self, cli, stream_options, put, stream):
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
            for shard_id, number in put.items()
        }

    def test_the_next_run_goes_on_where_the_last_one_ended(self, cli, stream_options, put, tmp_path):
        cli("run", *stream_options)
        done = cli("run", *stream_options, "--json")

        assert done.exit_code == 0
        assert {key: (line["from"], line["rows"]) for key, line in done.by_shard.items()} == {
            shard_id: (f"AFTER_SEQUENCE_NUMBER:{number}", 0) for shard_id, number in put.items()
        }
        assert DeltaTable(tmp_path / "table").to_pyarrow_table().num_rows == 2

    @pytest.mark.usefixtures("put")
    def test_without_json_it_is_a_table_with_a_header(self, cli, stream_options):
        done = cli("run", *stream_options)
        header, *rows = (line.split() for line in done.out.splitlines())
        assert header == [name for name in FIELDS if name != "stream"]
        assert {(row[0], row[1], row[-1]) for row in rows} == {(A, "committed", "-"), (B, "committed", "-")}
        assert {row[2] for row in rows} == {"-"}

    @pytest.mark.usefixtures("put")
    def test_a_named_shard_is_run_alone(self, cli, stream_options):
        done = cli("run", *stream_options, "--shard", B, "--json")
        assert done.exit_code == 0
        assert done.by_shard.keys() == {B}

    @pytest.mark.usefixtures("put")
    def test_start_is_where_the_first_run_begins(self, cli, stream_options):
        done = cli("run", *stream_options, "--start", "AT_TIMESTAMP:2026-01-01T00:00:00Z", "--json")
        assert {line["from"] for line in done.lines} == {"AT_TIMESTAMP:2026-01-01T00:00:00Z"}

    def test_a_finished_shard_is_no_failure(self, cli, stream_options, put, kinesis, stream):
        kinesis.merge_shards(StreamName=stream, ShardToMerge=A, AdjacentShardToMerge=B)
        done = cli("run", *stream_options, "--json")
        assert done.exit_code == 0
        states = {shard_id: line["state"] for shard_id, line in done.by_shard.items()}
        assert states == {A: "finished", B: "finished", C: "committed"}
        assert [done.by_shard[shard_id]["rows"] for shard_id in put] == [1, 1]
        # By default they are asked for no more; by name they are, and it is no failure.
        assert cli("run", *stream_options, "--json").by_shard.keys() == {C}
        again = cli("run", *stream_options, "--shard", A, "--json")
        assert (again.exit_code, again.by_shard[A]["state"]) == (0, "finished")

    @pytest.mark.usefixtures("put", "dagster_home")
    def test_with_dagster_home_the_run_is_in_that_instance(self, cli, stream_options, stream):
        assert cli("run", *stream_options).exit_code == 0

        with dg.DagsterInstance.get() as instance:
            (run,) = instance.get_runs()
            assert run.status is dg.DagsterRunStatus.SUCCESS
            assert instance.get_dynamic_partitions(str(shard_partitions(stream).name)) == [A, B]
            assert instance.get_materialized_partitions(raw_key(stream)) == {A, B}

    @pytest.mark.usefixtures("put", "dagster_home")
    def test_a_named_shard_is_run_alone_where_all_are_partitions_too(self, cli, stream_options):
        cli("run", *stream_options)
        done = cli("run", *stream_options, "--shard", A, "--json")
        assert done.exit_code == 0
        assert done.by_shard.keys() == {A}

    # run, not well

    @pytest.mark.usefixtures("put")
    def test_a_failing_shard_is_printed_with_its_reason_and_ends_it_with_1(self, cli, stream_options, fail):
        fail(B)
        done = cli("run", *stream_options, "--json")

        assert done.exit_code == 1
        assert done.by_shard[A]["state"] == "committed"
        assert done.by_shard[A]["rows"] == 1
        failed = done.by_shard[B]
        assert list(failed) == FIELDS
        assert (failed["state"], failed["rows"], failed["lag_ms"]) == ("failed", 0, None)
        assert failed["error_class"] == "ReadFailed"
        assert "AccessDeniedException" in failed["error"]
        assert "Traceback" not in done.out + done.err

    @pytest.mark.usefixtures("put")
    def test_a_failing_shard_is_in_the_table_for_people_too(self, cli, stream_options, fail):
        fail(A)
        done = cli("run", *stream_options)
        assert done.exit_code == 1
        (line,) = (line for line in done.out.splitlines() if line.startswith(A))
        assert line.split()[1:3] == ["failed", "ReadFailed"]
        assert "AccessDeniedException" in line

    def test_a_waiting_child_ends_it_with_1(self, cli, stream_options, put, kinesis, stream):
        del put
        kinesis.merge_shards(StreamName=stream, ShardToMerge=A, AdjacentShardToMerge=B)
        done = cli("run", *stream_options, "--shard", C, "--json")
        assert done.exit_code == 1
        assert (done.by_shard[C]["state"], done.by_shard[C]["error_class"]) == ("waiting", "ParentUnfinished")

    @pytest.mark.usefixtures("put")
    def test_a_table_of_another_kind_is_one_clear_line(self, cli, stream_options, tmp_path):
        import pyarrow as pa  # noqa: PLC0415
        from deltalake import write_deltalake  # noqa: PLC0415

        write_deltalake(tmp_path / "table", pa.table({"n": [1]}))
        done = cli("run", *stream_options)
        assert done.exit_code == 1
        assert "not a raw Kinesis table" in single_line_error(done.err)
        assert done.out == ""


# Bad input


@pytest.mark.usefixtures("put")
class TestBadInput:
    def bad(self, done) -> str:
        assert done.exit_code == 2
        assert done.out == ""
        return single_line_error(done.err)

    def test_an_unknown_shard(self, cli, stream_options, stream):
        done = cli("run", *stream_options, "--shard", "shardId-000000000099", "--shard", A)
        assert f"stream {stream} has no shard 'shardId-000000000099'" in self.bad(done)

    @pytest.mark.filterwarnings("ignore::dagster.BetaWarning", "ignore::dagster.PreviewWarning")
    @pytest.mark.parametrize("command", ["run", "positions"])
    def test_a_stream_that_no_yaml_names_without_a_table(self, command, cli, stream):
        assert "no defs/*/defs.yaml defines it" in self.bad(cli(command, "--stream", stream))

    @pytest.mark.filterwarnings("ignore::dagster.BetaWarning", "ignore::dagster.PreviewWarning")
    def test_an_arn_of_a_stream_that_its_yaml_has_by_name(self, cli):
        arn = "arn:aws:kinesis:us-east-1:111122223333:stream/orders"
        assert "defs.yaml has orders; give that instead" in self.bad(cli("positions", "--stream", arn))

    @pytest.mark.parametrize("start", ["YESTERDAY", "AT_TIMESTAMP:noon", "AT_SEQUENCE_NUMBER:1", ""])
    def test_a_start_that_is_none(self, start, cli, stream_options):
        self.bad(cli("run", *stream_options, "--start", start))

    @pytest.mark.parametrize(
        "table",
        [
            "gs://lake/orders",
            "https://lake/orders",
            " ",
            "s3:///orders",
            "s3://my lake/orders",
            "file://orders",
        ],
    )
    def test_a_table_of_no_supported_kind(self, table, cli, stream):
        told = self.bad(cli("run", "--stream", stream, "--table", table))
        assert "s3://" in told

    def test_a_dagster_home_that_is_no_folder(self, cli, stream_options, put, monkeypatch):
        del put
        monkeypatch.setenv("DAGSTER_HOME", "relative/home")
        assert "DAGSTER_HOME" in self.bad(cli("run", *stream_options))

    @pytest.mark.parametrize("content", ["storage: [", "no_such_key: 1"])
    def test_a_dagster_yaml_that_cannot_be_meant(
        self, cli, stream_options, put, monkeypatch, tmp_path, content
    ):
        del put
        (tmp_path / "dagster.yaml").write_text(content)
        monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
        self.bad(cli("run", *stream_options))

    def test_a_port_that_is_none(self, cli):
        assert "65535" in cli("local", "--port", "99999999").err

    def test_a_port_that_is_taken(self, cli):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = str(taken.getsockname()[1])
            assert f"port {port}: " in self.bad(cli("local", "--port", port))

    def test_a_stream_name_that_is_none(self, cli, tmp_path):
        told = self.bad(cli("run", "--stream", "page views", "--table", str(tmp_path)))
        assert "invalid stream name" in told

    @pytest.mark.parametrize(
        "option",
        [
            ("--start", "LATEST"),
            ("--on-data-loss", "continue"),
            ("--on-recreated", "restart"),
            ("--endpoint-url", "http://127.0.0.1:1"),
            ("--region", "eu-west-1"),
        ],
    )
    def test_what_goes_with_a_table_without_one(self, option, cli, stream):
        assert f"{option[0]}: only with --table" in self.bad(cli("run", "--stream", stream, *option))

    def test_an_endpoint_that_is_none(self, cli, stream, tmp_path):
        place = ["--stream", stream, "--table", str(tmp_path), "--endpoint-url", "nonsense"]
        assert "nonsense" in self.bad(cli("run", *place))

    @pytest.mark.parametrize("arguments", [["run"], ["run", "--colour"], ["nothing"]], ids=" ".join)
    def test_what_is_no_command_line(self, arguments, cli):
        done = cli(*arguments)
        assert done.exit_code == 2
        assert done.err.splitlines()[-1].startswith("Error: ")


# What a machine may lack


def test_without_java_it_is_one_clear_line_and_nothing_is_committed(
    cli, stream_options, put, tmp_path, monkeypatch
):
    del put
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    done = cli("run", *stream_options)
    assert done.exit_code == 1
    assert f"Spark needs Java 17 or newer: JAVA_HOME is {tmp_path}" in single_line_error(done.err)


def test_a_stream_that_is_not_there_is_one_clear_line(cli, stream_options, stream):
    done = cli("run", *stream_options)
    assert done.exit_code == 1
    assert f"stream {stream}: not found" in single_line_error(done.err)


def test_an_endpoint_that_nothing_answers_on_is_one_clear_line_after_bounded_tries(
    cli, stream, tmp_path, monkeypatch
):
    waits: list[float] = []
    monkeypatch.setattr(botocore.endpoint, "time", SimpleNamespace(sleep=waits.append))
    place = ["--stream", stream, "--table", str(tmp_path), "--endpoint-url", "http://127.0.0.1:1"]

    began = time.monotonic()
    done = cli("run", *place)

    assert done.exit_code == 1
    assert "127.0.0.1:1" in single_line_error(done.err)
    assert len(waits) <= 5
    assert time.monotonic() - began + sum(waits) < 60


# positions


@pytest.mark.usefixtures("spark")
class TestPositions:
    def test_json_is_a_line_per_shard_with_its_parents(self, cli, stream_options, put, kinesis, stream):
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
        for shard_id, number in put.items():
            assert done.by_shard[shard_id]["position"] == f"AFTER_SEQUENCE_NUMBER:{number}"
            assert done.by_shard[shard_id]["last_arrival"].endswith("+00:00")
        assert done.by_shard[C]["last_arrival"] is None
        assert done.by_shard[C]["tip_time"].endswith("+00:00")

    @pytest.mark.usefixtures("put")
    def test_without_json_it_is_a_table_with_a_header(self, cli, stream_options):
        cli("run", *stream_options)
        header, *rows = (line.split() for line in cli("positions", *stream_options).out.splitlines())
        assert header[:4] == ["shard", "parents", "state", "position"]
        assert [row[:3] for row in rows] == [[A, "-", "open"], [B, "-", "open"]]


@pytest.mark.usefixtures("put", "spark")
def test_positions_tell_what_was_given_up_of_a_stream_that_was_created_again(
    cli, stream_options, stream, faults
):
    assert cli("run", *stream_options, "--shard", A).exit_code == 0
    before = cli("positions", *stream_options, "--json").by_shard
    faults.recreate(stream)
    assert cli("run", *stream_options, "--on-recreated", "restart").exit_code == 0

    *now, first, second = cli("positions", *stream_options, "--json").lines
    given_up = first, second
    assert [(line["shard"], line["state"]) for line in now] == [(A, "open"), (B, "open")]
    assert {line["shard"]: line["position"] for line in given_up} == {
        shard_id: line["position"] for shard_id, line in before.items()
    }
    for line in given_up:
        assert line["state"] == "given_up"
        assert "was deleted" in line["gaps"][0]


@pytest.mark.usefixtures("put")
def test_positions_before_the_first_run_say_that_there_is_no_table(cli, stream_options):
    done = cli("positions", *stream_options)
    assert done.exit_code == 1
    assert "there is no table; the first run creates it" in single_line_error(done.err)


@pytest.mark.usefixtures("put")
def test_positions_of_a_mistyped_table_make_no_folder(cli, stream_options, tmp_path):
    cli("positions", *stream_options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("put")
def test_positions_read_nothing_of_the_stream(cli, stream_options, faults):
    cli("positions", *stream_options)
    assert faults.count("GetShardIterator") == faults.count("GetRecords") == 0


@pytest.mark.usefixtures("put")
def test_a_table_that_is_a_file_is_one_line(cli, stream, settings, tmp_path):
    (tmp_path / "file").write_text("no table")
    reached = ["--endpoint-url", settings.endpoint_url]
    done = cli("run", "--stream", stream, "--table", str(tmp_path / "file"), *reached)
    assert done.exit_code == 1
    assert "table " in single_line_error(done.err)


def test_lines_come_parents_first_whatever_the_order_of_events(cli, stream_options, put):
    done = cli("run", *stream_options, "--json")
    assert [line["shard"] for line in done.lines] == sorted(put)


# As a user starts it


def test_the_installed_script_prints_json_lines_alone_and_makes_the_table_alone(
    script, stream_options, put, tmp_path: Path
):
    done = script("run", *stream_options, "--json")
    assert done.exit_code == 0, done.err
    assert done.by_shard.keys() == put.keys()
    assert "Traceback" not in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["table"]


def test_the_installed_script_tells_bad_input_in_one_line(script, stream_options):
    done = script("run", *stream_options, "--start", "YESTERDAY")
    assert done.exit_code == 2
    assert "invalid position 'YESTERDAY'" in single_line_error(done.err)


@pytest.mark.usefixtures("spark")
def test_a_run_keeps_to_a_setting(cli, stream_options, kinesis, stream):
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    kinesis.put_records(StreamName=stream, Records=[{"Data": b"abc", "PartitionKey": "k"}] * 3)
    done = cli("run", *stream_options, "--set", "max_records=2", "--json")
    assert done.exit_code == 0
    assert [line["rows"] for line in done.lines] == [2]
