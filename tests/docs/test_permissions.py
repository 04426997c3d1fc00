"""The policies of docs/permissions.md allow the calls of the package to AWS, and no others."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, parse_qs, urlsplit

import pytest

import kinesis_assets
from benchmarks.servers.bucket import bucket
from kinesis_assets.table.maintenance.run import maintain
from kinesis_assets.table.maintenance.steps import MaintenanceLimits
from kinesis_assets.table.raw_table import PositionedTable
from support.formats import derived_in, raw_table_in
from support.iceberg.aws_catalogs import on_glue
from support.plain_derived import PlainDerived, steps_of
from support.single_task import land_as_in_spark

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kinesis_assets.ingest.manifest import Landing
    from kinesis_assets.ingest.task import LandingJob
    from kinesis_assets.kinesis.reading.range import Allowance, ShardRange
    from kinesis_assets.testing import Faults
    from support.bench import Bench
    from support.iceberg.aws_catalogs import GlueProxy
    from support.iceberg.table_bucket import TableBucket

PACKAGE = Path(kinesis_assets.__file__).parent
PAGE = (PACKAGE.parent / "docs" / "permissions.md").read_text()
POLICIES = [json.loads(text) for text in re.findall(r"^```json\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)]
CALLERS = {"_call", "_complete_or_raise", "SignedCall", "SignedRequests"}
"""The functions through which the package calls Kinesis, with the name of the operation."""


def allowed(*statements: str) -> set[str]:
    """Return the actions of statements, each of which the page has."""
    found = [each for policy in POLICIES for each in policy["Statement"] if each["Sid"] in statements]
    assert {each["Sid"] for each in found} == set(statements)
    actions = [each["Action"] for each in found]
    return {name for each in actions for name in ([each] if isinstance(each, str) else each)}


def called(module: Path) -> set[str]:
    """Return the operations of Kinesis that a module names in its calls."""
    calls = [node for node in ast.walk(ast.parse(module.read_text())) if isinstance(node, ast.Call)]
    names = [
        argument.value
        for call in calls
        if getattr(call.func, "attr", getattr(call.func, "id", "")) in CALLERS
        for argument in call.args
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    ]
    verbs = "Describe|Get|List|Subscribe|Register|Deregister"
    return {f"kinesis:{name}" for name in names if re.fullmatch(rf"({verbs})[A-Z]\w+", name)}


def test_every_policy_is_one_that_aws_accepts() -> None:
    assert len(POLICIES) == 14
    for policy in POLICIES:
        assert policy["Version"] == "2012-10-17"
        for statement in policy["Statement"]:
            assert statement.keys() == {"Sid", "Effect", "Action", "Resource"}
            assert statement["Effect"] == "Allow"


def test_the_stream_policies_have_the_operations_that_the_clients_call() -> None:
    of_stream = allowed("ReadStream", "ReadByConsumer", "ManageConsumers")
    assert of_stream == called(PACKAGE / "kinesis" / "client.py")
    assert allowed("ListStreams") == called(PACKAGE / "kinesis" / "account.py")


def test_no_other_module_creates_a_client_of_kinesis() -> None:
    using = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if re.search(r"\bsdk_client\(", path.read_text())
    }
    leases = "operations/leases/lease_table.py"  # of DynamoDB
    catalog = "operations/catalog/glue_catalog.py"  # of Glue
    assert using == {"kinesis/account.py", "kinesis/client.py", "kinesis/sdk.py", leases, catalog}


def test_the_catalog_policy_has_the_operations_that_register_tables() -> None:
    source = (PACKAGE / "operations" / "catalog" / "glue_catalog.py").read_text()
    used = {f"glue:{name}" for name in re.findall(r"self\._call\(\"(\w+)\"", source)}
    assert (allowed("RegisterTables") | allowed("ListEntries"), allowed("ListEntries")) == (
        used,
        {"glue:GetTables"},
    )


def test_the_lease_policy_has_the_operations_that_the_commands_call() -> None:
    source = (PACKAGE / "operations" / "leases" / "lease_table.py").read_text()
    read = {f"dynamodb:{name}" for name in re.findall(r"self\._call\(\s*\"(\w+)\"", source)}
    written = {f"dynamodb:{name}" for name in re.findall(r"self\._write\(\s*\"(\w+)\"", source)}
    assert (allowed("ReadLeases"), allowed("WriteLeases")) == (read, written)


def test_the_policy_of_a_caller_has_the_operation_that_assumes_a_role() -> None:
    source = (PACKAGE / "kinesis" / "role_credentials.py").read_text()
    (operation,) = re.findall(r"sts_client\([\w., ]+\)\.(\w+)\(", source)
    assert allowed("AssumeRole") == {"sts:" + operation.title().replace("_", "")}


def test_the_registry_policy_has_the_operation_that_the_decoder_calls() -> None:
    source = (PACKAGE / "decoders" / "glue.py").read_text()
    (operation,) = re.findall(r"_client\(registry\)\.(\w+)\(", source)
    assert allowed("ReadSchemas") == {"glue:" + operation.title().replace("_", "")}


def test_a_task_makes_the_calls_of_the_executors_policy(bench: Bench, faults: Faults) -> None:
    bench.create()
    bench.put_many(3)
    operations: set[str] = set()

    def land(job: LandingJob, ranges: Sequence[ShardRange], allowance: Allowance) -> Landing:
        before = len(faults.calls)
        landing = land_as_in_spark(job, ranges, allowance)
        operations.update(call.operation for call in faults.calls[before:])
        return landing

    bench.run(land=land)
    assert {f"kinesis:{name}" for name in operations} == allowed("ReadShards")


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Path]:
    """The log of a bucket, to which the environment points."""
    log = tmp_path / "requests"
    with bucket(log):
        yield log


def actions(log: Path) -> list[str]:
    """Return the action of S3 that each request needs."""
    requests = re.findall(r'"(GET|HEAD|PUT|POST|DELETE) (\S+) HTTP/', log.read_text())
    return [action_of(method, urlsplit(url)) for method, url in requests]


def action_of(method: str, url: SplitResult) -> str:
    query = parse_qs(url.query, keep_blank_values=True)
    if method in {"GET", "HEAD"}:
        return "s3:GetObject" if "/" in url.path.strip("/") else "s3:ListBucket"
    if method == "DELETE":
        return "s3:AbortMultipartUpload" if "uploadId" in query else "s3:DeleteObject"
    return "s3:DeleteObject" if "delete" in query else "s3:PutObject"


ABORT = {"s3:AbortMultipartUpload"}
"""Needed only after an upload has failed."""


def use(bench: Bench, log: Path) -> set[str]:
    """Do with the table what runs, operations and maintenance do, and return the actions of the tasks."""
    (shard,) = bench.create()
    bench.put_many(3)
    tasks: set[str] = set()

    def land(job: LandingJob, ranges: Sequence[ShardRange], allowance: Allowance) -> Landing:
        before = len(actions(log))
        landing = land_as_in_spark(job, ranges, allowance)
        tasks.update(actions(log)[before:])
        return landing

    for _ in range(4):
        bench.run(land=land)
        bench.put_many(3)
    bench.replay()
    bench.seek("LATEST", shard)
    list(maintain(bench.table, bench.client.describe(), machine=lambda: bench.now))
    return tasks


def test_runs_and_maintenance_make_the_requests_of_the_table_policy(bench: Bench, log: Path) -> None:
    bench.table = PositionedTable("s3://lake/raw/clicks")
    tasks = use(bench, log)
    assert set(actions(log)) | ABORT == allowed("WriteTable", "ListTable")
    assert tasks | ABORT <= allowed("WriteFiles", "ListTable")
    assert {"s3:PutObject"} <= tasks


def test_an_iceberg_table_in_glue_needs_the_table_policy_and_that_of_its_catalog(
    bench: Bench, log: Path, glue_proxy: GlueProxy
) -> None:
    bench.table = raw_table_in(on_glue(glue_proxy.url, {}), "s3://lake/raw/clicks")
    tasks = use(bench, log)
    assert set(actions(log)) <= allowed("WriteTable", "ListTable")
    assert tasks <= allowed("WriteFiles", "ListTable")
    used = {f"glue:{operation}" for operation in glue_proxy.calls}
    assert used == allowed("CommitToIceberg") | allowed("CreateDatabase")
    assert glue_proxy.calls["CreateDatabase"] == 1


def test_a_derived_iceberg_table_in_glue_needs_the_same_policies(log: Path, glue_proxy: GlueProxy) -> None:
    format_ = derived_in(on_glue(glue_proxy.url, {}), "orders")
    derived = PlainDerived("s3://lake/raw/clicks", format=format_)
    derived.append((1, 10, "a"))
    derived.upsert((1, 11, "a"), (2, 20, "b"))
    steps_of(derived, limits=MaintenanceLimits(small_files=2))
    assert set(actions(log)) <= allowed("WriteTable", "ListTable")
    used = {f"glue:{operation}" for operation in glue_proxy.calls}
    assert used == allowed("CommitToIceberg") | allowed("CreateDatabase")


def test_a_table_in_a_table_bucket_needs_the_actions_of_its_policies(
    bench: Bench, lake: str, table_bucket: TableBucket
) -> None:
    bench.create(1)
    bench.table = raw_table_in(table_bucket.catalog, f"{lake}/clicks")
    for _ in range(2):
        bench.put_many(3)
        bench.run()
    listed = allowed("ReadAndWriteRows", "CommitToTableBucket", "CreateInTableBucket")
    only_in_races = {"s3tables:GetNamespace"}
    assert {f"s3tables:{action}" for action in table_bucket.actions} == listed - only_in_races
