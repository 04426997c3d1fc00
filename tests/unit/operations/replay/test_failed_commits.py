"""Commits of a replay that fail, or whose responses are lost."""

from __future__ import annotations

import pytest

from kinesis_assets.errors import CommitFailed
from kinesis_assets.operations.replay.outcome import ReplayState
from kinesis_assets.table.snapshot import TableSnapshot
from support.replays import A, ingest_and_lose, states


@pytest.mark.parametrize("others", [False, True])
def test_a_commit_whose_response_is_lost_is_found(bench, monkeypatch, others):
    ingest_and_lose(bench, 2)
    commit = TableSnapshot.commit
    lost = []

    def lose_response(self, files, **rest):
        commit(self, files, **rest)
        if files and not lost:
            lost.append(True)
            if others:
                bench.amend(rewound=(A,))
            raise OSError("connection reset")

    monkeypatch.setattr(TableSnapshot, "commit", lose_response)
    result = bench.replay()

    assert states(result) == {A: (ReplayState.FILLED, 1)}
    assert result.version is not None
    assert bench.items == list(range(5))


@pytest.mark.slow
def test_a_commit_that_always_fails_is_reported(bench, monkeypatch):
    ingest_and_lose(bench, 2)

    def refused(*_, **__):
        raise OSError("connection refused")

    monkeypatch.setattr(TableSnapshot, "commit", refused)
    with pytest.raises(CommitFailed):
        bench.replay()
    assert bench.items == [0, 1, 3, 4]
