"""Options of `kinesis-assets compare` that are refused. An integration test compares."""

from __future__ import annotations

import pytest

from support.command_line import single_line_error
from support.mentions import assert_mentions


@pytest.fixture
def compare(cli, kinesis, settings, stream):
    """Run `compare` on a stream without records."""
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    options = ["--stream", stream, "--endpoint-url", str(settings.endpoint_url), "--with", "other"]
    return lambda *more: cli("compare", *options, "--key", "id", "--stream-key", "data", *more)


@pytest.mark.parametrize("margin", ["inf", "nan", "1e15", "1e400", "-1"])
def test_a_margin_that_is_no_time_for_which_a_stream_keeps_records_is_refused(compare, margin):
    done = compare("--margin", margin)
    assert (done.exit_code, done.out) == (2, "")
    assert "Error: Invalid value for '--margin'" in done.err


@pytest.mark.parametrize("option", ["--from", "--to"])
def test_a_time_after_the_year_9999_is_refused(compare, option):
    done = compare(option, "9999-12-31T23:59:59-05:00")
    assert (done.exit_code, done.out) == (2, "")
    assert_mentions(single_line_error(done.err), "9999-12-31T23:59:59-05:00", "after the year 9999")
