"""Heartbeats of a run in the table's folder."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from kinesis_assets.errors import TableNotWritable
from kinesis_assets.table import heartbeat as heartbeat_module
from kinesis_assets.table.heartbeat import ENDED, HEARTBEATS_FOLDER, Heartbeat, heartbeats
from support.attempts import freeze_all, shards


@pytest.fixture(autouse=True)
def made(table) -> None:
    freeze_all(table, shards("a"))


@pytest.fixture
def writes(monkeypatch):
    """Each write of a heartbeat; a test may put an error in for the next ones."""
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


def test_there_is_one_from_the_beginning_to_the_end(table):
    heartbeat = Heartbeat(table, "run", seconds=60)
    assert heartbeats(table) == {}
    heartbeat.start()
    assert heartbeats(table).keys() == {"run"}
    assert heartbeats(table) != {"run": ENDED}
    heartbeat.end()
    heartbeat._thread.join(60)
    assert heartbeats(table) == {"run": ENDED}


def test_one_that_begins_again_has_not_ended(table):
    for _ in range(2):
        heartbeat = Heartbeat(table, "run", seconds=60)
        heartbeat.start()
        assert heartbeats(table) != {"run": ENDED}
        heartbeat.end()
        heartbeat._thread.join(60)


def test_the_next_one_deletes_those_that_ended_an_hour_ago(table):
    for run_id in ("ended", "just ended", "silent"):
        Heartbeat(table, run_id, seconds=60)._write(b"" if run_id == "silent" else b"ended")
    folder = Path(table.uri, HEARTBEATS_FOLDER)
    now = folder.joinpath("just ended").stat().st_mtime
    for run_id, age in (("ended", 3700), ("just ended", 3500), ("silent", 7200)):
        os.utime(folder / run_id, (now - age, now - age))
    heartbeat = Heartbeat(table, "run", seconds=60)
    heartbeat.start()
    heartbeat.end()
    heartbeat._thread.join(60)
    assert heartbeats(table).keys() == {"just ended", "silent", "run"}


def test_it_goes_on_until_nothing_could_be_committed_any_more(table, writes):
    heartbeat = Heartbeat(table, "run", seconds=0.05, interval=0.01)
    heartbeat.start()
    heartbeat._thread.join(60)
    assert writes.written == [f"{HEARTBEATS_FOLDER}/run"] * 7
    assert heartbeats(table) == {"run": ENDED}


def test_one_that_fails_is_followed_by_others(table, writes, caplog):
    writes.refused[:] = [OSError("slow down")] * 3
    heartbeat = Heartbeat(table, "run", seconds=0.05, interval=0.01)
    with caplog.at_level(logging.WARNING):
        heartbeat.start()
        heartbeat._thread.join(60)
    assert caplog.text.count("a heartbeat cannot be written: slow down") == 3
    assert len(writes.written) == 7
    assert heartbeats(table).keys() == {"run"}


def test_a_table_that_cannot_be_written_to_is_refused_at_the_beginning(table, writes):
    writes.refused.append(PermissionError(13, "Permission denied"))
    with pytest.raises(TableNotWritable):
        Heartbeat(table, "run", seconds=60).start()


def test_each_is_another_than_the_one_before(table, writes):
    heartbeat = Heartbeat(table, "run", seconds=60)
    seen = set()
    for _ in range(3):
        heartbeat._beat()
        (beat,) = heartbeats(table).values()
        while not writes.written or beat in seen:  # a file system's clock may be coarse
            heartbeat._beat()
            (beat,) = heartbeats(table).values()
        seen.add(beat)
    assert len(seen) == 3


def test_an_end_whose_object_is_gone_is_no_error(table):
    heartbeat = Heartbeat(table, "run", seconds=60)
    heartbeat.start()
    Path(table.uri, HEARTBEATS_FOLDER, "run").unlink()
    heartbeat.end()
