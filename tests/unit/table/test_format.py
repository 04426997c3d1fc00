"""Tables that another process creates at the same time, in a store that shows them late."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable

from kinesis_assets.errors import RoleNotAssumed, TableMissing, TableUnreachable, TableUnsuitable
from kinesis_assets.table.raw_table import PositionedTable
from support.attempts import STREAM, freeze_all, shards
from support.virtual_time import VirtualTime


class ShownLate(PositionedTable):
    """A table that exists, but cannot be opened until it has been tried a number of times.

    Attributes:
        hidden: How often it cannot be opened from now on.
    """

    hidden = 0

    def snapshot(self):
        if self.hidden:
            self.hidden -= 1
            raise TableMissing(self.uri, "there is no table")
        return super().snapshot()


@pytest.fixture
def late(table):
    """A table that another process has created, see `ShownLate`."""
    table.create_if_missing()
    return ShownLate(table.uri, replace(table.policy, clock=VirtualTime()))


def test_a_table_of_another_process_is_opened_as_soon_as_it_can_be_read(late):
    late.hidden = 3
    assert late.create_if_missing().version == 0
    assert late.clock.waits == [0.1, 0.2]
    assert len(DeltaTable(late.uri).history()) == 1


def test_a_table_that_never_can_be_read_is_unreachable(late):
    late.hidden = 1000
    with pytest.raises(TableUnreachable, match="cannot be created"):
        late.create_if_missing()
    assert late.clock.waits == [0.1, 0.2, 0.4, 0.8]


@pytest.mark.parametrize("error", [OSError("timed out"), RoleNotAssumed("denied")])
def test_a_store_that_does_not_answer_is_not_tried_again(late, monkeypatch, error):
    def fail(*_, **__):
        raise error

    late.hidden = 1000
    monkeypatch.setattr(DeltaTable, "create", fail)
    with pytest.raises(TableUnreachable):
        late.create_if_missing()
    assert late.clock.waits == []


def test_no_table_is_created_in_the_folder_of_one_whose_log_was_deleted(late):
    frozen = freeze_all(late, shards("a"))
    log = Path(late.uri, "_delta_log").rename(Path(late.uri, "_lost"))
    with pytest.raises(TableUnsuitable, match="Restore the folder _delta_log"):
        late.create_if_missing()
    assert not Path(late.uri, "_delta_log").exists()
    log.rename(Path(late.uri, "_delta_log"))
    assert late.create_if_missing().positions(STREAM) == frozen


def test_a_table_with_commits_that_is_seen_late_is_opened(late):
    frozen = freeze_all(late, shards("a"))
    late.hidden = 3
    assert late.create_if_missing().positions(STREAM) == frozen
    assert late.clock.waits == [0.1, 0.2]
