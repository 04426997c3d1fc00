"""A signal stops `kinesis-assets run` gracefully."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from deltalake import DeltaTable

SECONDS = 300
"""How long to wait for anything that has to happen."""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_a_stopped_run_commits_and_prints_what_it_has_read(
    stream_options, kinesis, stream, faults, tmp_path, number
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
            deadline = time.monotonic() + SECONDS
            while faults.count("GetRecords") < 5:
                assert process.poll() is None, process.communicate()
                assert time.monotonic() < deadline
                time.sleep(0.1)
            os.kill(process.pid, number)
            out, err = process.communicate(timeout=SECONDS)
        finally:
            process.kill()  # leaving the context waits for the process
    (line,) = map(json.loads, out.splitlines())
    assert process.returncode == 1
    assert err.splitlines()[-1].startswith(f"Error: stream {stream}: the run was canceled")
    assert (line["state"], 5 <= line["rows"] < 300) == ("committed", True)
    assert DeltaTable(tmp_path / "table").to_pyarrow_table().num_rows == line["rows"]
