"""Which profiles the two libraries that reach a table on S3 take, as docs/security.md says it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.token_service import BASE_KEY, EXTERNAL_ID, ROLE, SignedRequests, TokenService

if TYPE_CHECKING:
    from collections.abc import Callable

    SignersOf = Callable[[str, str], set[str | None]]

ASSUME = f"""
import boto3, json
sts = boto3.Session(profile_name="base").client("sts")
got = sts.assume_role(RoleArn="{ROLE}", RoleSessionName="tests", ExternalId="{EXTERNAL_ID}")["Credentials"]
print(json.dumps({{"Version": 1}} | {{name: str(value) for name, value in got.items()}}))
"""
"""What `aws configure export-credentials --profile reader --format process` does."""

FILES, LOG = "files.open_input_file('x')", "snapshot()"
USE = """
from kinesis_assets.table.table import PositionedTable
table = PositionedTable("s3://lake/orders")
for _ in range(3):
    try:
        table.{use}
    except Exception as error:
        print(error)
"""


@pytest.fixture
def signers_of(store: SignedRequests, role_environment: dict[str, str], tmp_path: Path) -> SignersOf:
    """The keys that sign three requests of a process with a profile."""
    script = tmp_path / "assume.py"
    script.write_text(ASSUME)
    config = Path(role_environment["AWS_CONFIG_FILE"])
    process = f"credential_process = {sys.executable} {script}"
    config.write_text(f"{config.read_text()}\n[profile process]\n{process}\n")

    def signers_of(profile: str, use: str) -> set[str | None]:
        env = role_environment | {
            "AWS_PROFILE": profile,
            "AWS_ENDPOINT_URL_S3": store.url,
            "AWS_ALLOW_HTTP": "true",
        }
        command = [sys.executable, "-c", USE.format(use=use)]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=True)
        assert len(store.keys) >= 3, done.stdout
        return set(store.keys)

    return signers_of


@pytest.mark.parametrize("use", [FILES, LOG], ids=["files", "log"])
def test_a_profile_with_keys_signs(signers_of: SignersOf, use: str) -> None:
    assert signers_of("base", use) == {BASE_KEY}


@pytest.mark.parametrize("use", [FILES, LOG], ids=["files", "log"])
def test_a_profile_with_a_credential_process_signs_by_the_role_and_goes_on_when_it_ends(
    signers_of: SignersOf, sts: TokenService, use: str
) -> None:
    keys = signers_of("process", use)
    assert len(keys) > 1
    assert keys <= sts.expirations.keys()


def test_a_profile_with_a_role_signs_for_the_log_alone(
    signers_of: SignersOf, store: SignedRequests, sts: TokenService
) -> None:
    # https://github.com/apache/arrow/issues/41794: once that is solved, the page has one exception less.
    assert signers_of("reader", FILES) == {None}
    store.keys.clear()
    assert signers_of("reader", LOG) <= sts.expirations.keys()
