"""Heartbeats of a run in the table's folder."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from benchmarks.harness.waiting import SECONDS
from kinesis_assets.errors import TableNotWritable
from kinesis_assets.table.run_files import heartbeat as heartbeat_module
from kinesis_assets.table.run_files.heartbeat import ENDED, HEARTBEATS_FOLDER, Heartbeat, heartbeats
from support.attempts import freeze_all, shards


@pytest.fixture(autouse=True)
def created_table(table) -> None:
    freeze_all(table, shards("a"))


@pytest.fixture
def writes(monkeypatch):
    """The writes of heartbeats in `written`; the next ones raise the errors in `refused`."""
    written: list[str] = []
    refused: list[OSError] = []
    write = heartbeat_module.write_new

    def noting(filesystem, path):
        written.append(path)
        if refused:
            raise refused.pop(0)
        return write(filesystem, path)

    monkeypatch.setattr(heartbeat_module, "write_new", noting)
    noting.written, noting.refused = written, refused
    return noting


def test_a_heartbeat_is_written_at_the_start_and_marked_as_ended_at_the_end(table):
    heartbeat = Heartbeat(table, "run", seconds=SECONDS)
    assert heartbeats(table) == {}
    heartbeat.start()
    assert heartbeats(table).keys() == {"run"}
    assert heartbeats(table) != {"run": ENDED}
    heartbeat.end()
    heartbeat._thread.join(SECONDS)
    assert heartbeats(table) == {"run": ENDED}


def test_a_restarted_heartbeat_has_not_ended(table):
    for _ in range(2):
        heartbeat = Heartbeat(table, "run", seconds=SECONDS)
        heartbeat.start()
        assert heartbeats(table) != {"run": ENDED}
        heartbeat.end()
        heartbeat._thread.join(SECONDS)


def test_starting_a_heartbeat_deletes_those_that_ended_more_than_an_hour_ago(table):
    for run_id in ("ended", "just ended", "silent"):
        Heartbeat(table, run_id, seconds=SECONDS)._write(b"" if run_id == "silent" else b"ended")
    folder = Path(table.uri, HEARTBEATS_FOLDER)
    now = folder.joinpath("just ended").stat().st_mtime
    for run_id, age in (("ended", 3700), ("just ended", 3500), ("silent", 7200)):
        os.utime(folder / run_id, (now - age, now - age))
    heartbeat = Heartbeat(table, "run", seconds=SECONDS)
    heartbeat.start()
    heartbeat.end()
    heartbeat._thread.join(SECONDS)
    assert heartbeats(table).keys() == {"just ended", "silent", "run"}


def test_heartbeats_continue_until_the_run_can_no_longer_commit(table, writes):
    heartbeat = Heartbeat(table, "run", seconds=0.05, interval=0.01)
    heartbeat.start()
    heartbeat._thread.join(SECONDS)
    assert writes.written == [f"{HEARTBEATS_FOLDER}/run"] * 7
    assert heartbeats(table) == {"run": ENDED}


def test_a_failed_write_is_logged_and_later_heartbeats_are_written(table, writes, caplog):
    writes.refused[:] = [OSError("slow down")] * 3
    heartbeat = Heartbeat(table, "run", seconds=0.05, interval=0.01)
    with caplog.at_level(logging.WARNING):
        heartbeat.start()
        heartbeat._thread.join(SECONDS)
    assert caplog.text.count("a heartbeat cannot be written: slow down") == 3
    assert len(writes.written) == 7
    assert heartbeats(table).keys() == {"run"}


def test_starting_a_heartbeat_fails_if_the_table_is_not_writable(table, writes):
    writes.refused.append(PermissionError(13, "Permission denied"))
    with pytest.raises(TableNotWritable):
        Heartbeat(table, "run", seconds=SECONDS).start()


def test_each_heartbeat_differs_from_the_previous_one(table, writes):
    heartbeat = Heartbeat(table, "run", seconds=SECONDS)
    seen = set()
    for _ in range(3):
        heartbeat._beat()
        (beat,) = heartbeats(table).values()
        while not writes.written or beat in seen:  # a file system's clock may be coarse
            heartbeat._beat()
            (beat,) = heartbeats(table).values()
        seen.add(beat)
    assert len(seen) == 3


def test_ending_a_heartbeat_whose_object_was_deleted_is_not_an_error(table):
    heartbeat = Heartbeat(table, "run", seconds=SECONDS)
    heartbeat.start()
    Path(table.uri, HEARTBEATS_FOLDER, "run").unlink()
    heartbeat.end()
