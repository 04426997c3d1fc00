"""Ctrl-C stops `kinesis-assets run` gracefully. For SIGTERM, see spark/server/test_shared_server.py."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

from deltalake import DeltaTable

from benchmarks.harness.waiting import SECONDS, wait_until
from support.mentions import assert_mentions


def test_an_interrupted_run_commits_and_prints_what_it_has_read(
    stream_options, kinesis, stream, faults, tmp_path
):
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    entries = [{"Data": b"%d" % item, "PartitionKey": "k"} for item in range(300)]
    kinesis.put_records(StreamName=stream, Records=entries)
    faults.page_size(1)  # reading all pages takes a minute
    with subprocess.Popen(
        [Path(sys.prefix, "bin", "kinesis-assets"), "run", *stream_options, "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            wait_until(lambda: faults.count("GetRecords") >= 5, process)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=SECONDS)
        finally:
            process.kill()  # leaving the context waits for the process
    (line,) = map(json.loads, out.splitlines())
    assert process.returncode == 1
    assert_mentions(err.splitlines()[-1], f"Error: stream {stream}: ", "canceled")
    assert (line["state"], 5 <= line["rows"] < 300) == ("committed", True)
    assert DeltaTable(tmp_path / "table").to_pyarrow_table().num_rows == line["rows"]
