"""Roles that are assumed with an external id, and again before their credentials expire."""

from __future__ import annotations

import json
import math
import pickle
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from benchmarks.harness.waiting import SECONDS
from kinesis_assets.errors import CallFailed
from kinesis_assets.ingest.task import LandingJob
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.reading.range import Allowance, Bounds, RangeEnd, ShardRange
from kinesis_assets.kinesis.settings import ClientSettings
from kinesis_assets.testing.exchange import Answer
from support.token_service import BASE_SECRET, EXTERNAL_ID, ROLE, SignedRequests, TokenService

if TYPE_CHECKING:
    from kinesis_assets.table.raw_table import PositionedTable
    from kinesis_assets.testing import Faults

FIRST, SECOND = "shardId-000000000000", "shardId-000000000001"
ALL_KEYS = ("0", str((1 << 128) - 1))
MIDDLE = str(1 << 127)
PAGES = 18
"""A fifth of a second each: longer than any credentials of these tests live."""

WORKER = """
import pickle, sys
from kinesis_assets.ingest.task import land_group
job, ranges, allowance = pickle.loads(sys.stdin.buffer.read())
sys.stdout.buffer.write(pickle.dumps(land_group(job, ranges, allowance)))
"""
"""What a Spark worker does with what it is sent."""


def put(kinesis: Any, stream: str, count: int, key: str = "0") -> None:
    entries = [{"Data": b"%d" % n, "PartitionKey": "k", "ExplicitHashKey": key} for n in range(count)]
    kinesis.put_records(StreamName=stream, Records=entries)


def test_a_pickled_job_renews_expired_credentials(
    signed_stream: SignedRequests,
    signed_client: Any,
    sts: TokenService,
    role_environment: dict[str, str],
    faults: Faults,
    stream: str,
    table: PositionedTable,
) -> None:
    signed_client.create_stream(StreamName=stream, ShardCount=1)
    put(signed_client, stream, PAGES)
    faults.page_size(1)
    table.create_if_missing()
    settings = ClientSettings("us-east-1", signed_stream.url, "reader")
    job = LandingJob(stream, settings, table.folder, 1, math.inf)
    range_ = ShardRange(FIRST, Position(PositionKind.TRIM_HORIZON), Bounds(), ALL_KEYS)
    signed_stream.keys.clear()
    work = pickle.dumps((job, [range_], Allowance()))
    worker = [sys.executable, "-c", WORKER]
    done = subprocess.run(
        worker, input=work, env=role_environment, capture_output=True, timeout=SECONDS, check=True
    )
    (shard,) = pickle.loads(done.stdout).shards  # noqa: S301  # our own
    assert (shard.error, shard.end, shard.stats.rows) == (None, RangeEnd.TIP, PAGES)
    used = [sts.expirations[str(key)] for key in signed_stream.keys]
    assert max(used) - min(used) >= sts.life, "all was read with credentials that had not ended"
    secrets = [BASE_SECRET, EXTERNAL_ID, *sts.tokens]
    assert not [secret for secret in secrets if secret.encode() in work + done.stdout + done.stderr]


@pytest.mark.usefixtures("signed_client")
def test_a_role_that_cannot_be_assumed_is_a_failed_call(
    signed_stream: SignedRequests,
    sts: TokenService,
    role_environment: dict[str, str],
    stream: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = Path(role_environment["AWS_CONFIG_FILE"])
    config.write_text(config.read_text().replace(EXTERNAL_ID, "another"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", sts.url)
    client = StreamClient(stream, ClientSettings("us-east-1", signed_stream.url, "reader"))
    with pytest.raises(CallFailed, match="AccessDenied") as caught:
        client.describe()
    assert (signed_stream.keys, sts.tokens) == ([], [])
    assert BASE_SECRET not in str(caught.value)


def _refuse_signatures(signed_stream: SignedRequests, faults: Faults, shard_id: str) -> None:
    """Deny a shard's calls as AWS denies a wrong signature: the error repeats the session token."""

    def refused(*_: Any) -> Answer:
        canonical = f"'POST\n/\n\nhost:kinesis\nx-amz-security-token:{signed_stream.token}\n'"
        message = f"The signature does not match. The Canonical String for this request was\n{canonical}"
        return Answer(400, json.dumps({"__type": "InvalidSignatureException", "message": message}).encode())

    faults.answer("GetRecords", refused, shard_id=shard_id)


def test_a_run_with_a_role_renews_its_credentials_and_writes_no_secret(
    signed_stream: SignedRequests,
    signed_client: Any,
    sts: TokenService,
    role_environment: dict[str, str],
    faults: Faults,
    stream: str,
    tmp_path: Path,
) -> None:
    signed_client.create_stream(StreamName=stream, ShardCount=2)
    put(signed_client, stream, PAGES)
    put(signed_client, stream, 1, MIDDLE)
    faults.page_size(1)
    _refuse_signatures(signed_stream, faults, SECOND)
    signed_stream.keys.clear()
    home, table = tmp_path / "home", tmp_path / "table"
    home.mkdir()
    command = [Path(sys.executable).with_name("kinesis-assets"), "run", "--json", "--stream", stream]
    place = ["--table", table, "--endpoint-url", signed_stream.url, "--region", "us-east-1"]
    place += ["--set", f"role_arn={ROLE}", "--set", f"external_id={EXTERNAL_ID}"]
    env = role_environment | {"AWS_PROFILE": "base", "DAGSTER_HOME": str(home)}
    done = subprocess.run([*command, *place], env=env, capture_output=True, timeout=SECONDS, check=False)
    by_shard = {row["shard"]: row for row in map(json.loads, done.stdout.splitlines())}
    assert done.returncode == 1, done.stderr
    assert (by_shard[FIRST]["state"], by_shard[FIRST]["rows"]) == ("committed", PAGES)
    assert by_shard[SECOND]["state"] == "failed"
    assert "InvalidSignatureException" in by_shard[SECOND]["error"]
    assert DeltaTable(str(table)).to_pyarrow_table().num_rows == PAGES
    used = [sts.expirations[str(key)] for key in signed_stream.keys]
    assert max(used) - min(used) > sts.life
    assert any(request["RoleSessionName"].startswith(f"{stream}-") for request in sts.requests)
    # The output, all events and logs of Dagster, and the whole folder of the table.
    written = {str(file): file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    del written[role_environment["AWS_CONFIG_FILE"]]
    assert any(name.endswith(".db") for name in written)
    secrets = [BASE_SECRET, "SECRET0", *sts.tokens]
    everywhere = written | {"stdout": done.stdout, "stderr": done.stderr}
    found = [(where, each) for where, what in everywhere.items() for each in secrets if each.encode() in what]
    assert not found
