"""What is refused of an executor, by what a probe found there."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kinesis_assets.errors import ExecutorUnsuitable
from kinesis_assets.ingest import executors
from kinesis_assets.ingest.executors import ExecutorCheck, check_executors
from kinesis_assets.spark.setting_names import CHECKED, UNCHECKED

HEALTHY = {"host": "worker-1", "python": "/usr/bin/python3 3.12.4", "missing": None, "error": None}


class Session:
    """A double of a session on a cluster, of which only settings are used.

    Args:
        probe: Takes the check and returns what was found.
    """

    def __init__(self, monkeypatch, probe):
        self.conf = self
        self.settings = {CHECKED: UNCHECKED}
        self.probes = 0
        self._probe = probe
        monkeypatch.setattr(executors, "_examined", self._examined)

    def get(self, name, default):
        return self.settings.get(name, default)

    def set(self, name, value):
        self.settings[name] = value

    def _examined(self, spark, subject, check):
        assert spark is self
        assert "stream" in subject
        self.probes += 1
        return HEALTHY | {"time": datetime.now(UTC).timestamp()} | self._probe(check)


def tried(check):
    """Return what an executor that shares this process finds."""
    return {"error": check()}


@pytest.fixture
def opened(bench):
    """A stream with a table that has no files yet."""
    bench.create(2)
    return bench


def test_an_executor_that_reads_and_writes_is_accepted_and_leaves_no_file(opened, monkeypatch, tmp_path):
    session = Session(monkeypatch, tried)
    check_executors(session, opened.client, opened.table)
    assert session.settings[CHECKED].endswith(opened.table.uri)
    assert not [path for path in tmp_path.rglob("_kinesis/probes/*") if path.is_file()]


def test_a_session_is_checked_once_for_a_stream_and_a_table(opened, monkeypatch):
    session = Session(monkeypatch, tried)
    check_executors(session, opened.client, opened.table)
    check_executors(session, opened.client, opened.table)
    assert session.probes == 1


def test_a_session_of_this_environment_is_not_checked(opened, monkeypatch):
    session = Session(monkeypatch, tried)
    del session.settings[CHECKED]
    check_executors(session, opened.client, opened.table)
    assert session.probes == 0


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ({"missing": "No module named 'msgspec'"}, r"worker-1.*'msgspec'.*python_environment"),
        ({"error": "AccessDeniedException"}, r"worker-1.*AccessDenied.*permissions"),
        ({}, r"worker-1.*not found by this machine.*share"),
    ],
    ids=["packages", "rights", "another disk"],
)
def test_what_fails_on_an_executor_is_refused(opened, monkeypatch, found, message):
    session = Session(monkeypatch, lambda _: found)
    with pytest.raises(ExecutorUnsuitable, match=message):
        check_executors(session, opened.client, opened.table)
    assert session.settings[CHECKED] == UNCHECKED


@pytest.mark.parametrize("seconds", [-4000, 4000])
def test_another_clock_is_refused(opened, monkeypatch, seconds):
    time = datetime.now(UTC).timestamp() + seconds
    session = Session(monkeypatch, lambda check: tried(check) | {"time": time})
    with pytest.raises(
        ExecutorUnsuitable, match=rf"differs from this machine's by {seconds // 1000}\d\d\d s"
    ):
        check_executors(session, opened.client, opened.table)


def test_a_call_that_the_service_refuses_is_reported(opened, faults):
    faults.fail("GetShardIterator", status=400, code="AccessDeniedException")
    error = _check_of(opened)()
    assert "AccessDeniedException" in error


def test_a_throttled_call_is_left_to_the_run(opened, faults):
    faults.throttle("GetRecords")
    assert _check_of(opened)() is None


def test_a_folder_that_cannot_be_written_to_is_reported(opened, tmp_path):
    (tmp_path / "table").write_text("a file")
    assert "cannot be written to" in _check_of(opened)()


def _check_of(opened):
    shard_id = opened.client.list_shards()[0].shard_id
    since = datetime.now(UTC)
    return ExecutorCheck(
        opened.stream, opened.client.settings, shard_id, since, opened.table.folder, "_kinesis/probes/1"
    )
