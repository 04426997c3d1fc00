"""A table on S3 (moto), behind a proxy that drops the responses to commits."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from benchmarks.harness.waiting import SECONDS
from benchmarks.servers.bucket import create_bucket, moto_endpoint
from benchmarks.servers.s3_proxy import Commit, S3Proxy
from chaos.faults.site.fault_points import Fault
from kinesis_assets.table.raw_table import PositionedTable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chaos.faults.bench import FaultBench

NO_FAULT = Fault("")
DENIED = b"<?xml version='1.0'?><Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"


@pytest.fixture(scope="module")
def endpoint(environment: None) -> Iterator[str]:
    """The URL of an S3 endpoint in a process of its own, with a bucket."""
    del environment
    with moto_endpoint() as (url, _):
        create_bucket(url)
        yield url


@pytest.fixture
def proxy(endpoint: str) -> Iterator[S3Proxy]:
    with S3Proxy(endpoint) as proxy:
        yield proxy


@pytest.fixture
def on_s3(bench: FaultBench, endpoint: str, monkeypatch: pytest.MonkeyPatch) -> FaultBench:
    """A bench with unread records and a table on S3, which runs in this process access without the proxy."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", endpoint)
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    bench.table = PositionedTable(f"s3://lake/{bench.stream}")
    bench.create(2)
    bench.run()
    bench.put_many(60)
    return bench


def version(bench: FaultBench) -> int:
    return DeltaTable(bench.table.uri).version()


def assert_committed(bench: FaultBench, report: dict, rows: int = 60) -> None:
    assert {fact["state"] for fact in report["shards"].values()} == {"committed"}
    assert sum(fact["rows"] for fact in report["shards"].values()) == rows
    bench.assert_rows_equal_positions()


def test_a_commit_whose_response_is_dropped_is_recognized(on_s3: FaultBench, proxy: S3Proxy) -> None:
    before = version(on_s3)
    proxy.commits.append(Commit())
    assert_committed(on_s3, on_s3.start(NO_FAULT, environment=proxy.environment).wait().report)
    assert not proxy.commits
    assert proxy.statuses.count(200) == 1
    assert version(on_s3) == before + 1
    on_s3.assert_exactly_once()


@pytest.mark.parametrize("shards", [1, 2])
def test_a_commit_whose_response_is_dropped_is_recognized_after_other_commits(
    on_s3: FaultBench, proxy: S3Proxy, shards: int
) -> None:
    def others() -> None:
        for _ in range(2):
            on_s3.put_many(40)
            on_s3.run(list(on_s3.listed())[:shards])

    before = version(on_s3)
    proxy.commits.append(Commit(after=others))
    report = on_s3.start(NO_FAULT, environment=proxy.environment).wait().report
    assert not proxy.commits
    assert_committed(on_s3, report)
    assert report["version"] == before + 1
    assert version(on_s3) == before + 3
    on_s3.assert_next_run_recovers()


def test_a_commit_that_succeeds_with_response_500_is_recognized(on_s3: FaultBench, proxy: S3Proxy) -> None:
    before = version(on_s3)
    proxy.commits.append(Commit(status=500))
    assert_committed(on_s3, on_s3.start(NO_FAULT, environment=proxy.environment).wait().report)
    assert not proxy.commits
    assert version(on_s3) == before + 1
    on_s3.assert_exactly_once()


@pytest.mark.parametrize("status", [500, None])
def test_commits_that_never_arrive_are_retried(on_s3: FaultBench, proxy: S3Proxy, status: int | None) -> None:
    before = version(on_s3)
    proxy.commits += [Commit(forwarded=False, status=status)] * 2
    assert_committed(on_s3, on_s3.start(NO_FAULT, environment=proxy.environment).wait().report)
    assert not proxy.commits
    assert version(on_s3) == before + 1
    on_s3.assert_exactly_once()


def test_denied_commits_fail_the_run_after_two_attempts(on_s3: FaultBench, proxy: S3Proxy) -> None:
    before = version(on_s3)
    proxy.commits += [Commit(forwarded=False, status=403, content=DENIED)] * 3
    failed = on_s3.start(NO_FAULT, environment=proxy.environment).wait()
    assert failed.err.startswith("TableNotWritable")
    assert "AccessDenied" in failed.err
    assert len(proxy.commits) == 1
    assert version(on_s3) == before
    on_s3.assert_next_run_recovers()


def test_a_commit_that_succeeds_with_access_denied_is_recognized(on_s3: FaultBench, proxy: S3Proxy) -> None:
    proxy.commits += [Commit(status=403, content=DENIED)]
    assert_committed(on_s3, on_s3.start(NO_FAULT, environment=proxy.environment).wait().report)
    assert not proxy.commits
    on_s3.assert_exactly_once()


@pytest.mark.parametrize("forwarded", [True, False])
def test_a_run_killed_during_its_commit_request_leaves_each_record_exactly_once(
    on_s3: FaultBench, proxy: S3Proxy, forwarded: bool
) -> None:
    started = threading.Event()

    def kill() -> None:
        assert started.wait(SECONDS)
        process.signal(signal.SIGKILL)
        process.process.wait(SECONDS)

    proxy.commits.append(Commit(before=kill, forwarded=forwarded))
    process = on_s3.start(NO_FAULT, environment=proxy.environment)
    started.set()
    assert process.wait().code == -signal.SIGKILL
    on_s3.put_many(40)
    on_s3.assert_next_run_recovers()


def test_a_commit_of_a_killed_run_that_arrives_after_the_next_commit_is_refused(
    on_s3: FaultBench, proxy: S3Proxy
) -> None:
    held, release, answered = threading.Event(), threading.Event(), threading.Event()

    def hold() -> None:
        held.set()
        release.wait(SECONDS)

    proxy.commits.append(Commit(before=hold, after=answered.set))
    process = on_s3.start(NO_FAULT, environment=proxy.environment)
    assert held.wait(SECONDS)
    process.signal(signal.SIGKILL)
    assert process.wait().code == -signal.SIGKILL
    on_s3.put_many(40)
    on_s3.assert_next_run_recovers()
    release.set()
    assert answered.wait(SECONDS)
    assert proxy.statuses == [412]
    on_s3.assert_next_run_recovers()
