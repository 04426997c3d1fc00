"""What an attempt reads of concurrent commits that landed before its own."""

from __future__ import annotations

from collections import Counter

import pytest

from kinesis_assets.table.policy import TablePolicy
from kinesis_assets.table.positions.positions_chain import POSITIONS_FOLDER, ChainPolicy
from support.attempts import Attempt, current_positions, freeze_all, shards
from support.formats import reopened
from support.watched_files import WatchedFiles


@pytest.mark.slow
def test_a_process_reads_each_positions_file_once_even_if_its_attempt_is_overtaken_several_times(table):
    frozen = freeze_all(table, shards("a", "b"))
    slow = reopened(table)
    read, overtakings = Counter(), [4]
    slow.files = WatchedFiles(slow.files, lambda path: read.update([path]))
    open_snapshot = slow.snapshot

    def overtaken():
        snapshot = open_snapshot()
        if overtakings[0]:
            overtakings[0] -= 1
            Attempt(table, current_positions(table), {"b": 1}).commit()
        return snapshot

    slow.snapshot = overtaken
    attempt = Attempt(table, frozen, {"a": 1})
    attempt.table = slow
    assert attempt.commit().conflicts == {}
    assert overtakings == [0]
    assert {count for path, count in read.items() if path.startswith(POSITIONS_FOLDER)} == {1}


def overtaken_by(table, commits, policy):
    """Commit an attempt after `commits` others; return how often it opens the table."""
    writer = reopened(table, policy)
    attempt = Attempt(writer, freeze_all(writer, shards("a", "b")), {"a": 1})
    for _ in range(commits):
        Attempt(writer, current_positions(writer), {"b": 1}).commit()
    opened = []
    attempt.table = reopened(table, policy)
    open_snapshot = attempt.table.snapshot
    attempt.table.snapshot = lambda: opened.append(1) or open_snapshot()
    assert attempt.commit().conflicts == {}
    return len(opened)


@pytest.mark.slow
def test_after_reading_many_positions_files_the_table_is_opened_again_before_the_commit(table):
    assert overtaken_by(table, 9, TablePolicy(ChainPolicy(max_files=0))) == 2


@pytest.mark.slow
def test_after_reading_few_positions_files_the_table_is_not_opened_again(table):
    assert overtaken_by(table, 9, TablePolicy()) == 1
