"""Invalid arguments exit with 2 and one line of error, before anything is read."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from support.command_line import single_line_error
from support.mentions import assert_mentions

A = "shardId-000000000000"


@pytest.mark.usefixtures("sequence_numbers")
class TestBadInput:
    def refusal(self, done) -> str:
        """Assert that a command was refused as bad input, and return its error."""
        assert done.exit_code == 2
        assert done.out == ""
        return single_line_error(done.err)

    def test_an_unknown_shard_is_refused(self, cli, stream_options, stream):
        done = cli("run", *stream_options, "--shard", "shardId-000000000099", "--shard", A)
        assert_mentions(self.refusal(done), stream, "'shardId-000000000099'")

    @pytest.mark.filterwarnings("ignore::dagster.BetaWarning", "ignore::dagster.PreviewWarning")
    @pytest.mark.parametrize("command", ["run", "positions"])
    def test_a_stream_without_yaml_needs_a_table(self, command, cli, stream):
        assert "defs/*/defs.yaml" in self.refusal(cli(command, "--stream", stream))

    @pytest.mark.filterwarnings("ignore::dagster.BetaWarning", "ignore::dagster.PreviewWarning")
    def test_the_arn_of_a_stream_that_a_yaml_names_is_refused(self, cli):
        arn = "arn:aws:kinesis:us-east-1:111122223333:stream/orders"
        assert "defs.yaml has orders" in self.refusal(cli("positions", "--stream", arn))

    @pytest.mark.parametrize("start", ["YESTERDAY", "AT_TIMESTAMP:noon", "AT_SEQUENCE_NUMBER:1", ""])
    def test_an_invalid_start_is_refused_and_leaves_nothing(self, start, cli, stream_options):
        self.refusal(cli("run", *stream_options, "--start", start))
        assert not Path(stream_options[stream_options.index("--table") + 1]).exists()

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
    def test_a_table_with_an_unsupported_uri_is_refused(self, table, cli, stream):
        error = self.refusal(cli("run", "--stream", stream, "--table", table))
        assert "s3://" in error

    def test_a_relative_dagster_home_is_refused(self, cli, stream_options, sequence_numbers, monkeypatch):
        del sequence_numbers
        monkeypatch.setenv("DAGSTER_HOME", "relative/home")
        assert "DAGSTER_HOME" in self.refusal(cli("run", *stream_options))

    @pytest.mark.parametrize("content", ["storage: [", "no_such_key: 1"])
    def test_an_invalid_dagster_yaml_is_refused(
        self, cli, stream_options, sequence_numbers, monkeypatch, tmp_path, content
    ):
        del sequence_numbers
        (tmp_path / "dagster.yaml").write_text(content)
        monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
        self.refusal(cli("run", *stream_options))

    def test_an_invalid_port_is_refused(self, cli):
        assert "65535" in cli("local", "--port", "99999999").err

    def test_a_port_in_use_is_refused(self, cli):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = str(taken.getsockname()[1])
            assert f"port {port}: " in self.refusal(cli("local", "--port", port))

    def test_an_invalid_stream_name_is_refused(self, cli, tmp_path):
        error = self.refusal(cli("run", "--stream", "page views", "--table", str(tmp_path)))
        assert_mentions(error, "stream name", "'page views'")

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
    def test_an_option_of_a_table_is_refused_without_a_table(self, option, cli, stream):
        assert_mentions(self.refusal(cli("run", "--stream", stream, *option)), option[0], "--table")

    def test_an_invalid_endpoint_is_refused(self, cli, stream, tmp_path):
        options = ["--stream", stream, "--table", str(tmp_path), "--endpoint-url", "nonsense"]
        assert "nonsense" in self.refusal(cli("run", *options))

    @pytest.mark.parametrize("arguments", [["run"], ["run", "--colour"], ["nothing"]], ids=" ".join)
    def test_an_invalid_command_line_is_refused(self, arguments, cli):
        done = cli(*arguments)
        assert done.exit_code == 2
        assert done.err.splitlines()[-1].startswith("Error: ")
