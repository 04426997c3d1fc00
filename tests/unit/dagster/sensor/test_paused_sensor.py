"""The sensor of a paused stream requests no run, and says why."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from kinesis_assets.errors import PauseUnreadable
from kinesis_assets.table.run_files.pause import PAUSE_FILE, pause, resume
from support.mentions import assert_mentions
from support.shard_ids import A, B, C, D


@pytest.fixture
def table(daemon, source):
    source.create(2)
    daemon.tick()
    return daemon.opened.table


def pause_now(table):
    pause(table, reason="schema change", by="ann", at=datetime(2026, 1, 31, 12, tzinfo=UTC))


def test_no_run_is_requested_and_the_skip_reason_is_that_of_the_pause(daemon, table):
    pause_now(table)
    result = daemon.tick()
    assert result.run_requests == []
    reason = result.skip_reason.skip_message
    assert_mentions(reason, "ann", "2026-01-31T12:00:00Z", "schema change", "`kinesis-assets resume`")
    resume(table)
    assert len(daemon.tick().run_requests) == 1


def test_new_shards_become_partitions_all_the_same(daemon, table, source):
    pause_now(table)
    source.split(A)
    daemon.tick()
    assert daemon.partition_keys() == [A, B, C, D]


def test_a_pause_that_cannot_be_read_fails_the_tick(daemon, table):
    Path(table.uri, PAUSE_FILE).parent.mkdir(parents=True, exist_ok=True)
    Path(table.uri, PAUSE_FILE).write_text("{")
    with pytest.raises(PauseUnreadable, match="kinesis-assets resume"):
        daemon.tick()
