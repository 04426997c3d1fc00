"""A role is assumed once in a process, again before its credentials expire, and its refusal is explained."""

from __future__ import annotations

import traceback
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from kinesis_assets.errors import CallFailed, RoleNotAssumed, TableUnreachable
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.role_credentials import ATTEMPTS, RoleCredentials, credentials_of, sts_client
from kinesis_assets.kinesis.settings import ClientSettings
from kinesis_assets.table.raw_table import PositionedTable
from kinesis_assets.table.store.storage import TableFolder
from kinesis_assets.table.store.suitability import check_conditional_puts
from support.mentions import assert_mentions
from support.token_service import BASE_KEY, BASE_SECRET, CALLER, EXTERNAL_ID, ROLE
from support.virtual_time import VirtualTime

if TYPE_CHECKING:
    from kinesis_assets.kinesis.role import AssumedRole
    from support.token_service import SignedRequests, TokenService

pytestmark = pytest.mark.slow


@pytest.fixture
def sdk_clients() -> None:
    """Share no client of the SDK, and sign."""


def test_all_users_in_a_process_share_the_credentials_of_a_role(role: AssumedRole, sts: TokenService) -> None:
    sts.life = 3600
    StreamClient("orders", ClientSettings("us-east-1", "http://127.0.0.1:1", role=role))
    options = TableFolder.at("s3://lake/orders", role).storage_options()
    assert options is not None
    assert options["AWS_ACCESS_KEY_ID"] == credentials_of(replace(role)).current().access_key
    assert [request["Action"] for request in sts.requests] == ["AssumeRole"]


def test_the_request_has_the_settings_of_the_role(role: AssumedRole, sts: TokenService) -> None:
    assert credentials_of(role).caller == CALLER
    (request,) = sts.requests
    assert (request["RoleArn"], request["RoleSessionName"], request["ExternalId"]) == (
        ROLE,
        "tests",
        EXTERNAL_ID,
    )


def test_credentials_that_would_not_last_for_an_open_file_are_refreshed(
    role: AssumedRole, sts: TokenService
) -> None:
    sts.life = 3600
    lasting = [credentials_of(role).current() for _ in range(2)]
    sts.life = 2990
    other = replace(role, session_name="other")
    ending = [credentials_of(other).current() for _ in range(2)]
    assert lasting[0] == lasting[1]
    assert ending[0] != ending[1]


@pytest.mark.slow
def test_the_stream_is_called_with_the_credentials_of_the_role(
    role: AssumedRole, sts: TokenService, signed_stream: SignedRequests, signed_client: Any, stream: str
) -> None:
    signed_client.create_stream(StreamName=stream, ShardCount=1)
    signed_stream.keys.clear()
    client = StreamClient(stream, ClientSettings("us-east-1", signed_stream.url, role=role))
    client.listing()
    client.listing()
    assert len(signed_stream.keys) == 4
    assert set(signed_stream.keys) <= sts.expirations.keys()
    assert signed_stream.token in sts.tokens


def shown(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


def test_a_refused_role_is_explained_before_anything_is_called(
    role: AssumedRole, signed_stream: SignedRequests
) -> None:
    refused = replace(role, external_id="another")
    with pytest.raises(RoleNotAssumed) as caught:
        StreamClient("orders", ClientSettings("us-east-1", signed_stream.url, role=refused))
    assert_mentions(str(caught.value), ROLE, "AccessDenied", BASE_KEY)
    assert_mentions(str(caught.value), "trust policy", "sts:AssumeRole", "external_id")
    assert BASE_SECRET not in shown(caught.value)
    assert signed_stream.keys == []


def test_a_missing_external_id_is_a_possible_reason(role: AssumedRole) -> None:
    with pytest.raises(RoleNotAssumed, match="external_id"):
        credentials_of(replace(role, external_id=None))


def test_a_table_whose_role_cannot_be_assumed_is_unreachable(
    role: AssumedRole, store: SignedRequests
) -> None:
    table = PositionedTable("s3://lake/orders", role=replace(role, external_id="another"))
    with pytest.raises(TableUnreachable, match=ROLE) as caught:
        table.create_if_missing()
    assert "trust policy" in str(caught.value)
    assert "network" not in str(caught.value)  # the advice about other tables that cannot be reached
    with pytest.raises(OSError, match=ROLE):
        table.files.get_file_info("file")
    assert ROLE in str(check_conditional_puts(table.uri, table.folder))
    assert store.keys == []


@pytest.fixture
def store(store: SignedRequests, monkeypatch: pytest.MonkeyPatch) -> SignedRequests:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", store.url)
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    return store


def test_a_role_that_is_refused_later_is_a_failed_call(
    role: AssumedRole, signed_stream: SignedRequests, monkeypatch: pytest.MonkeyPatch, sts: TokenService
) -> None:
    client = StreamClient("orders", ClientSettings("us-east-1", signed_stream.url, role=role))
    monkeypatch.setattr(sts, "respond", lambda *_: (403, "<ErrorResponse/>"))
    with pytest.raises(CallFailed, match=f"RoleNotAssumed: role {ROLE}"):
        client.describe()


def test_concurrent_calls_share_a_failed_refresh(
    role: AssumedRole, sts: TokenService, caplog: pytest.LogCaptureFixture
) -> None:
    credentials = RoleCredentials(role, VirtualTime())
    sts.refuses = True
    with ThreadPoolExecutor(8) as pool:
        calls = [pool.submit(credentials.current) for _ in range(8)]
    errors = [call.exception() for call in calls]
    assert {type(error) for error in errors} == {RoleNotAssumed}
    assert len({str(error) for error in errors}) == 1
    assert len({id(error) for error in errors}) == 8
    assert len(sts.requests) == 2
    assert len([record for record in caplog.records if record.exc_info]) == 1


def test_a_failed_refresh_is_repeated_seconds_later(role: AssumedRole, sts: TokenService) -> None:
    clock = VirtualTime()
    credentials = RoleCredentials(role, clock)
    sts.refuses = True
    with pytest.raises(RoleNotAssumed, match="AccessDenied"):
        credentials.current()
    sts.refuses = False
    with pytest.raises(RoleNotAssumed, match="AccessDenied"):
        credentials.current()
    clock.now += 5
    assert [credentials.current().token for _ in range(2)] == sts.tokens[-2:]


def test_after_a_failed_refresh_credentials_that_last_are_used_for_seconds(
    role: AssumedRole, sts: TokenService
) -> None:
    sts.life = 2990
    clock = VirtualTime()
    credentials = RoleCredentials(role, clock)
    sts.refuses = True
    assert {credentials.current().token for _ in range(3)} == {sts.tokens[0]}
    assert len(sts.requests) == 2
    clock.now += 5
    assert credentials.current().token == sts.tokens[0]
    assert len(sts.requests) == 3


@pytest.mark.slow
def test_a_throttled_request_is_repeated(role: AssumedRole, sts: TokenService) -> None:
    sts.throttled = 1
    assert credentials_of(role).current().token in sts.tokens
    retries = sts_client(None, "us-east-1").meta.config.retries
    assert retries == {"mode": "standard", "total_max_attempts": ATTEMPTS}


def test_credentials_that_have_expired_by_the_machine_s_clock_are_refused(
    role: AssumedRole, sts: TokenService
) -> None:
    sts.life = -10
    with pytest.raises(RoleNotAssumed, match=r"clock.*expired"):
        credentials_of(role)


def test_a_profile_that_does_not_exist_is_reported(role: AssumedRole) -> None:
    with pytest.raises(RoleNotAssumed, match=rf"{ROLE}.*\(nobody\)"):
        credentials_of(replace(role, profile_name="nobody"))


def test_a_folder_on_a_disk_needs_no_role(role: AssumedRole, sts: TokenService, tmp_path: Any) -> None:
    PositionedTable(str(tmp_path / "table"), role=role).create_if_missing()
    assert sts.requests == []
