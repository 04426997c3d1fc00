"""A store that ignores the condition of a conditional put is found before a table is created in it."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import boto3
import pytest

from benchmarks.servers.bucket import BUCKET, bucket
from benchmarks.servers.slow_bucket import proxy_process
from kinesis_assets.errors import StoreUnsuitable
from kinesis_assets.operations.doctor.examine import examine
from kinesis_assets.operations.doctor.finding import Level
from kinesis_assets.table.raw_table import PositionedTable
from kinesis_assets.table.store.storage import TableFolder
from kinesis_assets.table.store.suitability import check_conditional_puts
from support.attempts import freeze_all, shards
from support.plain_derived import PlainDerived

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kinesis_assets.operations.doctor.finding import Finding
    from support.bench import Bench
    from support.token_service import SignedRequests


@pytest.fixture
def ignore_conditions(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Lets the store, to which the environment points, ignore conditions from then on."""
    with bucket(), proxy_process(os.environ["AWS_ENDPOINT_URL_S3"], conditional=False) as environment:

        def ignore() -> None:
            for name, value in environment.items():
                monkeypatch.setenv(name, value)

        yield ignore


def objects() -> list[str]:
    """Return the keys of all objects in the bucket."""
    found: list[dict[str, Any]] = boto3.client("s3").list_objects_v2(Bucket=BUCKET).get("Contents", [])
    return [each["Key"] for each in found]


def test_no_raw_table_is_created_in_a_store_that_ignores_conditions(
    ignore_conditions: Callable[[], None],
) -> None:
    ignore_conditions()
    with pytest.raises(StoreUnsuitable, match="If-None-Match"):
        PositionedTable(f"s3://{BUCKET}/raw").create_if_missing()
    assert objects() == []


def test_no_derived_table_is_created_in_a_store_that_ignores_conditions(
    ignore_conditions: Callable[[], None],
) -> None:
    ignore_conditions()
    with pytest.raises(StoreUnsuitable):
        PlainDerived(f"s3://{BUCKET}/derived")
    assert objects() == []


def test_the_creation_of_a_table_puts_a_probe_twice_and_deletes_it(tmp_path: Path) -> None:
    log = tmp_path / "requests"
    with bucket(log) as lake:
        table = PositionedTable(f"{lake}/raw")
        freeze_all(table, shards("a"))
        table.reopened().create_if_missing()
        assert [key for key in objects() if "probe" in key] == []
        probes = re.findall(r'"(\w+) /lake/raw/_kinesis/probes/(\w+)', unquote(log.read_text()))
    assert [method for method, _ in probes] == ["PUT", "PUT", "DELETE"]
    assert len({name for _, name in probes}) == 1


def test_a_table_at_the_root_of_a_bucket_is_checked(ignore_conditions: Callable[[], None]) -> None:
    ignore_conditions()
    with pytest.raises(StoreUnsuitable):
        check_conditional_puts(f"s3://{BUCKET}", TableFolder.at(f"s3://{BUCKET}"))
    assert objects() == []


def test_a_store_that_denies_puts_is_not_said_to_ignore_conditions(
    store: SignedRequests, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", store.url)
    unknown = check_conditional_puts("s3://lake/raw", TableFolder.at("s3://lake/raw"))
    assert unknown is not None
    assert "SignatureDoesNotMatch" in unknown


def store_findings(bench: Bench, **options: Any) -> list[Finding]:
    findings = examine(bench.client, bench.table, **options)
    return [finding for finding in findings if finding.check == "store"]


class TestDoctor:
    @pytest.fixture
    def bench(self, bench: Bench, ignore_conditions: Callable[[], None]) -> Bench:
        """A stream with a table in the bucket."""
        del ignore_conditions  # not yet
        bench.create()
        bench.table = PositionedTable(f"s3://{BUCKET}/raw")
        bench.put(1)
        bench.run()
        return bench

    def test_a_store_that_honors_conditions_is_ok(self, bench: Bench) -> None:
        assert [finding.level for finding in store_findings(bench)] == [Level.OK]

    def test_a_store_that_ignores_conditions_is_a_problem(
        self, bench: Bench, ignore_conditions: Callable[[], None]
    ) -> None:
        ignore_conditions()
        (finding,) = store_findings(bench)
        assert finding.level is Level.PROBLEM
        assert "If-None-Match" in finding.sentence

    def test_without_a_probe_nothing_is_reported(
        self, bench: Bench, ignore_conditions: Callable[[], None]
    ) -> None:
        ignore_conditions()
        assert store_findings(bench, probes_store=False) == []

    def test_a_store_that_cannot_be_checked_is_named(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from kinesis_assets.operations.doctor import examine  # noqa: PLC0415

        monkeypatch.setattr(examine, "check_conditional_puts", lambda *_: "Access Denied")
        (finding,) = store_findings(bench)
        assert finding.level is Level.INFO
        assert "Access Denied" in finding.sentence


def test_a_table_on_a_disk_has_no_finding_about_its_store(bench: Bench) -> None:
    bench.create()
    bench.put(1)
    bench.run()
    assert store_findings(bench) == []
