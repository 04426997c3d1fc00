"""What is refused of an executor, by what a probe found there."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from kinesis_assets.errors import ExecutorUnsuitable
from kinesis_assets.ingest import executor_check
from kinesis_assets.ingest.executor_check import ExecutorCheck, ShardCheck, check_executors
from kinesis_assets.spark.local_settings import CHECKED
from kinesis_assets.table.store.storage import TableFolder
from support.token_service import ROLE
from support.virtual_time import VirtualTime

HEALTHY = {"host": "worker-1", "python": "/usr/bin/python3 3.12.4", "missing": None, "error": None}

SUBJECT = "stream clicks"
FILE = "_kinesis/probes/1"


class Session:
    """A double of a session on a cluster, of which only settings are used.

    Args:
        probe: Takes the check and returns what was found.
    """

    def __init__(self, monkeypatch, probe):
        self.conf = self
        self.settings = {CHECKED: ""}
        self.probes = 0
        self._probe = probe
        monkeypatch.setattr(executor_check, "_examined", self._examined)

    def get(self, name, default):
        return self.settings.get(name, default)

    def set(self, name, value):
        self.settings[name] = value

    def _examined(self, spark, subject, check):
        assert spark is self
        assert subject == SUBJECT
        self.probes += 1
        return HEALTHY | {"time": datetime.now(UTC).timestamp()} | self._probe(check)


def tried(check):
    """Return what an executor that shares this process finds."""
    return {"error": check()}


@pytest.fixture
def opened(bench):
    """A stream with a table that has no files yet."""
    bench.create(2)
    bench.set_timing(clock=VirtualTime())  # no check waits before it is repeated
    return bench


def check(session, opened, folder=None):
    """Check the executors for the stream's table, or for another table with its records."""
    check_executors(session, SUBJECT, folder or opened.table.folder, opened.client)


def test_an_executor_that_reads_and_writes_is_accepted_and_leaves_no_file(opened, monkeypatch, tmp_path):
    session = Session(monkeypatch, tried)
    check(session, opened)
    assert session.settings[CHECKED].splitlines() == [opened.table.folder.uri]
    assert not [path for path in tmp_path.rglob("_kinesis/probes/*") if path.is_file()]


def test_a_session_is_checked_once_for_each_table(opened, monkeypatch, tmp_path):
    session = Session(monkeypatch, tried)
    other = TableFolder.at(str(tmp_path / "other"))
    for folder in (opened.table.folder, other, opened.table.folder, other):
        check(session, opened, folder)
    assert session.probes == 2


def test_a_table_whose_path_starts_like_that_of_a_checked_one_is_checked(opened, monkeypatch, tmp_path):
    session = Session(monkeypatch, tried)
    for name in ("clicks_by_day", "clicks"):
        check(session, opened, TableFolder.at(str(tmp_path / name)))
    assert session.probes == 2


def test_a_session_of_this_environment_is_not_checked(opened, monkeypatch):
    session = Session(monkeypatch, tried)
    del session.settings[CHECKED]
    check(session, opened)
    assert session.probes == 0


def test_without_a_stream_no_call_to_kinesis_is_made(opened, monkeypatch, faults):
    session = Session(monkeypatch, tried)
    before = len(faults.calls)
    check_executors(session, SUBJECT, opened.table.folder)
    assert (session.probes, len(faults.calls)) == (1, before)


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
        check(session, opened)
    assert session.settings[CHECKED] == ""


@pytest.mark.parametrize("seconds", [-4000, 4000])
def test_another_clock_is_refused(opened, monkeypatch, seconds):
    time = datetime.now(UTC).timestamp() + seconds
    session = Session(monkeypatch, lambda tries: tried(tries) | {"time": time})
    with pytest.raises(
        ExecutorUnsuitable, match=rf"differs from this machine's by {seconds // 1000}\d\d\d s"
    ):
        check(session, opened)


def test_a_call_that_the_service_refuses_is_reported(opened, faults):
    faults.fail("GetShardIterator", status=400, code="AccessDeniedException")
    assert "AccessDeniedException" in ShardCheck.of(opened.client)()


def test_a_call_that_fails_once_does_not_refuse_an_executor(opened, faults):
    faults.fail("GetShardIterator", status=500, times=1)
    faults.fail("GetRecords", status=503, times=1)
    assert ShardCheck.of(opened.client)() is None


def test_a_service_that_cannot_be_reached_is_reported(opened):
    reads = ShardCheck.of(opened.client)
    settings = replace(reads.settings, endpoint_url="http://127.0.0.1:9")
    assert "127.0.0.1:9" in replace(reads, settings=settings)()


@pytest.mark.slow
def test_a_response_is_awaited_as_long_as_by_a_run(opened, faults):
    opened.set_timing(read_timeout=0.2)
    faults.stall("GetRecords")
    assert "ReadTimeoutError" in ShardCheck.of(opened.client)()


def test_a_throttled_call_is_left_to_the_run(opened, faults):
    faults.throttle("GetRecords")
    assert ShardCheck.of(opened.client)() is None


def test_a_role_that_an_executor_cannot_assume_is_reported(opened, role):
    reads = ShardCheck.of(opened.client)
    refused = replace(role, external_id="another")
    error = replace(reads, settings=replace(reads.settings, role=refused))()
    assert f"role {ROLE} cannot be assumed: AssumeRole failed with AccessDenied" in error


def test_what_an_executor_cannot_read_of_the_stream_is_the_error(opened, faults):
    faults.fail("GetShardIterator", status=400, code="AccessDeniedException")
    tries = ExecutorCheck(ShardCheck.of(opened.client), opened.table.folder, FILE)
    assert "AccessDeniedException" in tries()


def test_a_folder_that_cannot_be_written_to_is_reported(opened, tmp_path):
    (tmp_path / "table").write_text("a file")
    assert "cannot be written to" in ExecutorCheck(None, opened.table.folder, FILE)()


def test_a_folder_is_written_to_with_the_role_of_the_table(role, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9")  # no region is to be found out
    refused = TableFolder.at("s3://lake/orders", replace(role, external_id="another"))
    error = ExecutorCheck(None, refused, FILE)()
    assert error.startswith(f"s3://lake/orders cannot be written to: role {ROLE} cannot be assumed")
