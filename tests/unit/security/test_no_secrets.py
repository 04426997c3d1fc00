"""No repr, error, event or configuration of the package contains a secret."""

from __future__ import annotations

import pickle
import traceback
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest

from kinesis_assets import (
    KinesisDataSource,
    KinesisResource,
    KinesisStreamComponent,
    ShardIOManager,
    build_kinesis_stream,
)
from kinesis_assets.errors import CallFailed, InvalidInput, KinesisAssetsError, ReadFailed, TableUnreachable
from kinesis_assets.ingest.plan import ReadPolicy, plan_run
from kinesis_assets.ingest.run import execute_run
from kinesis_assets.ingest.task import LandingJob, land_group
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.settings import ClientSettings
from kinesis_assets.table.raw_table import PositionedTable
from kinesis_assets.testing.exchange import Answer
from support.stream_names import io_manager_key
from support.table_folder import files_of, folder_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kinesis_assets.ingest.manifest import Landing
    from kinesis_assets.kinesis.reading.range import ShardRange
    from kinesis_assets.testing import Faults
    from support.token_service import SignedRequests

TOKEN = "SESSIONTOKEN/+=="  # noqa: S105  # these mean nothing, but must be found nowhere
SECRET = "SECRET/KEY+OF/the+tests"  # noqa: S105
PASSWORD = "PASS/WORD"  # noqa: S105
SECRETS = (TOKEN, SECRET, PASSWORD)
WITH_PASSWORD = f"http://user:{PASSWORD}@127.0.0.1:4567"


def secrets_in(*shown: object) -> list[str]:
    """Return the secrets that some texts contain."""
    text = " ".join(each if isinstance(each, str) else repr(each) for each in shown)
    return [secret for secret in SECRETS if secret in text]


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials in the environment, as in most containers."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAENVIRONMENT")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_SESSION_TOKEN", TOKEN)


@pytest.mark.usefixtures("credentials")
def test_a_run_shows_and_sends_no_secret(
    kinesis: Any, settings: ClientSettings, stream: str, table: PositionedTable
) -> None:
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    kinesis.put_record(StreamName=stream, Data=b"x", PartitionKey="k")
    sent: list[bytes] = []

    def land(job: LandingJob, ranges: Sequence[ShardRange], allowance: Any) -> Landing:
        sent.append(pickle.dumps((job, ranges, allowance)))
        return land_group(job, ranges, allowance)

    client = StreamClient(stream, settings)
    asked = [shard.shard_id for shard in client.list_shards()]
    plan = plan_run(client, table, asked=asked, policy=ReadPolicy())
    result = execute_run(land, client, table, plan)
    assert [outcome.rows for outcome in result.outcomes.values()] == [1]
    assert not secrets_in(client, client.settings, vars(client), plan, result, table, vars(table))
    (job,) = sent
    assert not [secret for secret in SECRETS if secret.encode() in job]
    written = [(folder_of(table) / path).read_bytes() for path in files_of(table)]
    assert len(written) >= 4
    assert not [secret for secret in SECRETS if any(secret.encode() in content for content in written)]


@pytest.mark.usefixtures("credentials")
def test_definitions_show_no_secret() -> None:
    definitions = build_kinesis_stream("orders", table="s3://lake/orders", profile_name="reader")
    manager = (definitions.resources or {})[io_manager_key("orders")]
    assert not secrets_in(manager, manager.kinesis, manager.opened, definitions)


# URLs with a password are refused without repeating it.


def refusals() -> dict[str, Any]:
    table = f"s3://AKIAINURI:{SECRET}@lake/orders"
    query = f"s3://lake/orders?access_key=AKIAINURI&secret_key={SECRET}"
    options = {"stream": "orders", "until": "2026-01-31T12:00:00Z", "endpoint_url": WITH_PASSWORD}
    return {
        "settings": lambda: ClientSettings(endpoint_url=WITH_PASSWORD),
        "resource": lambda: KinesisResource(endpoint_url=WITH_PASSWORD),
        "stream": lambda: build_kinesis_stream("orders", table="t", endpoint_url=WITH_PASSWORD),
        "component": lambda: KinesisStreamComponent("orders", table="t", endpoint_url=WITH_PASSWORD),
        "I/O manager": lambda: ShardIOManager(stream="orders", table=table, kinesis=KinesisResource()),
        "data source": lambda: KinesisDataSource(options).reader(None),
        "table": lambda: build_kinesis_stream("orders", table=table),
        "query of a table": lambda: build_kinesis_stream("orders", table=query),
    }


@pytest.mark.parametrize("place", refusals())
def test_a_password_in_a_url_is_refused_and_not_repeated(place: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        refusals()[place]()
    assert not secrets_in("".join(traceback.format_exception(caught.value)), caught.value)
    assert not secrets_in(str(caught.value.__context__))


@pytest.mark.parametrize("url", [WITH_PASSWORD, f"ftp//user:{PASSWORD}@nowhere"])
def test_a_password_in_the_environments_endpoint_is_refused_and_not_repeated(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_KINESIS", url)
    with pytest.raises(InvalidInput) as caught:
        StreamClient("orders", ClientSettings())
    assert not secrets_in(str(caught.value), caught.value.__cause__)


def test_an_endpoint_from_an_environment_variable_is_checked_when_it_is_resolved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    resource = KinesisResource(endpoint_url=dg.EnvVar("ENDPOINT_OF_THE_TESTS"))
    monkeypatch.setenv("ENDPOINT_OF_THE_TESTS", WITH_PASSWORD)
    with pytest.raises(InvalidInput):
        resource.process_config_and_initialize().stream("orders")


# Errors about signatures


def test_a_denied_signature_is_reported_without_the_session_token(
    kinesis: Any, settings: ClientSettings, stream: str, faults: Faults
) -> None:
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    message = f"The Canonical String should have been 'POST\\n/\\nhost:h\\nx-amz-security-token:{TOKEN}\\n'"
    body = f'{{"__type": "InvalidSignatureException", "message": "{message}"}}'.encode()
    faults.answer("ListShards", lambda *_: Answer(400, body))
    with pytest.raises(CallFailed, match="InvalidSignatureException: The Canonical") as caught:
        StreamClient(stream, settings).list_shards()
    assert "\n" not in str(caught.value)
    # The traceback with its causes, as Dagster and logging show it.
    assert not secrets_in("".join(traceback.format_exception(caught.value)))


@pytest.mark.usefixtures("credentials")
@pytest.mark.parametrize("use", [PositionedTable.snapshot, PositionedTable.create_if_missing])
def test_a_signature_denied_by_the_store_is_reported_without_the_session_token(
    use: Any, store: SignedRequests, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", store.url)
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    with pytest.raises(TableUnreachable, match="SignatureDoesNotMatch") as caught:
        use(PositionedTable("s3://lake/orders"))
    assert store.token == TOKEN
    assert "\n" not in str(caught.value)
    assert not secrets_in(str(caught.value), caught.value)


@pytest.mark.parametrize(
    "message",
    [
        f"x-amz-security-token:{TOKEN}\nhost:h",
        f"https://h/?X-Amz-Security-Token={TOKEN}&X-Amz-Date=1",
        f"<Error><Code>ExpiredToken</Code><Token-0>{TOKEN}</Token-0></Error>",
        f"\x1b[31mConnect to {WITH_PASSWORD}/a",
    ],
)
@pytest.mark.parametrize(
    "error_of",
    [
        InvalidInput,
        lambda message: ReadFailed("shard", message),
        lambda message: TableUnreachable("s3://lake", message),
    ],
)
def test_errors_of_libraries_are_shortened_to_one_line(message: str, error_of: Any) -> None:
    error: KinesisAssetsError = error_of(f"failed: {message}")
    assert not secrets_in(str(error), error, pickle.dumps(error.args).decode("latin-1"))
    assert "failed: " in str(error)
    assert not {"\n", "\x1b"} & {*str(error)}


def test_a_url_without_a_password_is_shown_unchanged() -> None:
    message = "GET http://127.0.0.1:4567/a failed; mail a@b.c; s3://lake/team@home"
    assert str(InvalidInput(message)) == message
