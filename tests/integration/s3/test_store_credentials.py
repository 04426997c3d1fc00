"""The profiles that the two libraries which access a table on S3 support: see docs/security.md."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks.harness.waiting import SECONDS
from support.token_service import BASE_KEY, EXTERNAL_ID, ROLE, SignedRequests, TokenService

if TYPE_CHECKING:
    from collections.abc import Callable

    SigningKeys = Callable[[str, str], set[str | None]]

ASSUME = f"""
import boto3, json
sts = boto3.Session(profile_name="base").client("sts")
got = sts.assume_role(RoleArn="{ROLE}", RoleSessionName="tests", ExternalId="{EXTERNAL_ID}")["Credentials"]
print(json.dumps({{"Version": 1}} | {{name: str(value) for name, value in got.items()}}))
"""
"""The equivalent of `aws configure export-credentials --profile reader --format process`."""

FILES, LOG = "files.open_input_file('x')", "snapshot()"
SCRIPT = """
from kinesis_assets.table.raw_table import PositionedTable
table = PositionedTable("s3://lake/orders")
for _ in range(3):
    try:
        table.{use}
    except Exception as error:
        print(error)
"""


@pytest.fixture
def signing_keys(store: SignedRequests, role_environment: dict[str, str], tmp_path: Path) -> SigningKeys:
    """Runs a process with a profile, and returns the access keys that sign its requests."""
    script = tmp_path / "assume.py"
    script.write_text(ASSUME)
    config = Path(role_environment["AWS_CONFIG_FILE"])
    process = f"credential_process = {sys.executable} {script}"
    config.write_text(f"{config.read_text()}\n[profile process]\n{process}\n")

    def signing_keys(profile: str, use: str) -> set[str | None]:
        env = role_environment | {
            "AWS_PROFILE": profile,
            "AWS_ENDPOINT_URL_S3": store.url,
            "AWS_ALLOW_HTTP": "true",
        }
        command = [sys.executable, "-c", SCRIPT.format(use=use)]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=SECONDS, check=True)
        assert len(store.keys) >= 3, done.stdout
        return set(store.keys)

    return signing_keys


@pytest.mark.parametrize("use", [FILES, LOG], ids=["files", "log"])
def test_a_profile_with_keys_signs_requests(signing_keys: SigningKeys, use: str) -> None:
    assert signing_keys("base", use) == {BASE_KEY}


@pytest.mark.parametrize("use", [FILES, LOG], ids=["files", "log"])
def test_a_profile_with_a_credential_process_renews_the_credentials_of_its_role(
    signing_keys: SigningKeys, sts: TokenService, use: str
) -> None:
    keys = signing_keys("process", use)
    assert len(keys) > 1
    assert keys <= sts.expirations.keys()


def test_a_profile_with_a_role_signs_requests_of_the_log_only(
    signing_keys: SigningKeys, store: SignedRequests, sts: TokenService
) -> None:
    # Arrow does not support such profiles: https://github.com/apache/arrow/issues/41794.
    assert signing_keys("reader", FILES) == {None}
    store.keys.clear()
    assert signing_keys("reader", LOG) <= sts.expirations.keys()
