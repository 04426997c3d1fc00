"""Direct calls: signed and sent like the SDK's, with the same errors, without delaying other generators."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
import tracemalloc
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from benchmarks.harness.waiting import SECONDS
from kinesis_assets.errors import CallFailed
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.settings import ClientSettings
from kinesis_assets.kinesis.transport.concurrency import Turns
from kinesis_assets.kinesis.transport.signed_call import MEMORY_PER_BODY_BYTE, SignedCall
from support.scripted_server import Response, ScriptedServer

NESTED = b"[" * 100_000 + b"]" * 100_000

SHARD = "shardId-000000000000"
BEGINNING = Position(PositionKind.TRIM_HORIZON)
PAGE = b'{"Records": [], "MillisBehindLatest": 0, "NextShardIterator": "i"}'


@dataclass
class Endpoint:
    """An HTTP server that returns one response to all calls.

    Attributes:
        url: Its address.
        status: The status of the response.
        requested: Set when a request has arrived.
        send_head: Set by a test so that the head is sent.
        head_sent: Set when the head has been sent.
        send_body: Set by a test so that the body is sent.
        paths: The paths of the requests.
    """

    url: str = ""
    status: int = 200
    body: bytes = PAGE
    requested: threading.Event = field(default_factory=threading.Event)
    send_head: threading.Event = field(default_factory=threading.Event)
    head_sent: threading.Event = field(default_factory=threading.Event)
    send_body: threading.Event = field(default_factory=threading.Event)
    paths: list[str] = field(default_factory=list)


@pytest.fixture
def endpoint():
    state = Endpoint()
    state.send_head.set()
    state.send_body.set()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            state.paths.append(self.path)
            state.requested.set()
            state.send_head.wait()
            self.send_response_only(state.status)
            self.send_header("Date", formatdate(usegmt=True))
            self.send_header("Content-Length", str(len(state.body)))
            self.end_headers()
            self.wfile.flush()
            state.head_sent.set()
            state.send_body.wait()
            self.wfile.write(state.body)

        def log_message(self, *_):
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True  # a connection stays open between calls
    serving = threading.Thread(target=server.serve_forever, args=[0.01])
    serving.start()
    state.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield state
    finally:
        state.send_head.set()
        state.send_body.set()
        server.shutdown()
        serving.join()
        server.socket.close()


@pytest.fixture
def served(endpoint, settings):
    """A client of the endpoint."""
    return StreamClient("orders", ClientSettings(settings.region_name, endpoint.url), attempts=1)


def read_concurrently(client, arrived, resume):
    """Read a page while another task waits for one event and then sets another."""
    pages = []

    async def reads():
        page, _ = await client.getting_records("i", 10)
        pages.append(page)

    async def others():
        assert await asyncio.to_thread(arrived.wait, SECONDS)
        assert not pages
        resume.set()

    Turns(2).run([reads(), others()])
    return pages[0]


@pytest.mark.parametrize(("before", "resume"), [("requested", "send_head"), ("head_sent", "send_body")])
def test_others_continue_during_a_slow_response(endpoint, served, before, resume):
    getattr(endpoint, resume).clear()
    page = read_concurrently(served, getattr(endpoint, before), getattr(endpoint, resume))
    assert page.next_shard_iterator == "i"


def test_others_continue_while_credentials_are_refreshed(served):
    signer = served._records_call.requests.signing.signer
    requested, arrived = threading.Event(), threading.Event()

    class Refreshed:
        def __init__(self, credentials):
            self._credentials = credentials

        def refresh_needed(self):
            return not arrived.is_set()

        def get_frozen_credentials(self):
            requested.set()
            assert arrived.wait(SECONDS)
            return self._credentials.get_frozen_credentials()

    signer._credentials = Refreshed(signer._credentials)
    assert read_concurrently(served, requested, arrived)


@pytest.mark.slow
@pytest.mark.parametrize("key", [{"PartitionKey": "partitionKey-1"}, {}], ids=["with keys", "without keys"])
@pytest.mark.parametrize("size", [100, 1000, 100_000])
def test_a_page_needs_no_more_memory_than_its_reservation(endpoint, served, size, key):
    data = base64.b64encode(bytes(size)).decode()
    number = 49590338271490256608559692538361571095921575989136588898  # as AWS gives them
    records = [
        {"SequenceNumber": str(number + place), "ApproximateArrivalTimestamp": 1545083650.987, "Data": data}
        | key
        for place in range(4_000_000 // size)
    ]
    endpoint.body = json.dumps(json.loads(PAGE) | {"Records": records}).encode()
    served.get_records("i", 10_000)
    tracemalloc.start()
    try:
        page, _ = served.get_records("i", 10_000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(page.records) == 4_000_000 // size
    assert peak <= MEMORY_PER_BODY_BYTE * len(endpoint.body)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (502, "<!DOCTYPE html><p>d\xe9sol\xe9".encode("latin-1")),
        (502, b"[]"),
        (503, b'"text"'),
        (503, b""),
        (500, b'{"__type": 500}'),
        (300, b"{}"),
        (500, b'{"message":' + NESTED + b"}"),
    ],
)
def test_an_error_response_that_is_not_from_kinesis_fails_the_call(endpoint, served, status, body):
    endpoint.status, endpoint.body = status, body
    with pytest.raises(CallFailed) as raised:
        served.get_records("i", 10)
    assert raised.value.status == status


def test_a_page_that_is_nested_too_deeply_fails_the_call(endpoint, served):
    endpoint.body = b'{"Other":' + NESTED + b"}"
    with pytest.raises(CallFailed) as raised:
        served.get_records("i", 10)
    assert raised.value.code == "IncompleteBody"


def test_the_path_of_the_endpoint_is_requested(endpoint, settings):
    client = StreamClient("orders", ClientSettings(settings.region_name, f"{endpoint.url}/kinesis"))
    client.get_records("i", 10)
    assert endpoint.paths == ["/kinesis"]


def test_a_client_with_the_sdks_parser_needs_no_signed_call(kinesis, stream, settings, monkeypatch):
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    monkeypatch.setattr("kinesis_assets.kinesis.client.SignedCall", None)
    client = StreamClient(stream, replace(settings, sdk_parser=True))
    page, _ = client.get_records(client.shard_iterator(SHARD, BEGINNING), 10)
    assert not page.records


@pytest.mark.parametrize(
    ("code", "status"),
    [("ProvisionedThroughputExceededException", 400), ("ExpiredIteratorException", 400), ("Broken", 500)],
)
def test_an_error_response_has_its_code_and_status(kinesis, stream, client, faults, code, status):
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    iterator = client.shard_iterator(SHARD, BEGINNING)
    faults.answer("GetRecords", lambda _, response: response.error(code, status))
    with pytest.raises(CallFailed) as raised:
        client.get_records(iterator, 10)
    assert (raised.value.code, raised.value.status) == (code, status)


@pytest.mark.parametrize("date", [None, "", "yesterday"])
def test_a_response_without_a_valid_date_fails_the_call(kinesis, stream, client, monkeypatch, date):
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    iterator = client.shard_iterator(SHARD, BEGINNING)
    call = SignedCall.__call__

    async def with_other_date(*arguments):
        return (await call(*arguments))[0], date

    monkeypatch.setattr(SignedCall, "__call__", with_other_date)
    with pytest.raises(CallFailed, match="invalid Date"):
        client.get_records(iterator, 10)


@pytest.fixture
def recording():
    """A service that returns the same response to every call and records the requests."""
    body = PAGE.replace(b"{", b'{"ShardIterator": "i", ', 1)
    head = f"HTTP/1.1 200 OK\r\nDate: {formatdate(usegmt=True)}\r\nContent-Length: {len(body)}\r\n\r\n"
    with ScriptedServer(Response(head.encode() + body)) as peer:
        yield peer


def parsed(request):
    """A request's first line, its headers by lower-case name, and its body."""
    head, _, body = request.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    return first, {name.lower(): value for name, value in headers.items()}, body


def assert_alike(ours, sdks):
    """Assert that two requests are equivalent and have the same signer."""
    (our_line, our_headers, our_body), (sdks_line, sdks_headers, sdks_body) = parsed(ours), parsed(sdks)
    assert our_line == sdks_line
    assert json.loads(our_body) == json.loads(sdks_body)
    for name in ("host", "accept-encoding", "content-type", "user-agent", "x-amz-target"):
        assert our_headers[name] == sdks_headers[name]
    mine, its = (headers["authorization"].split(", ")[0] for headers in (our_headers, sdks_headers))
    assert mine == its


def test_get_records_is_requested_as_by_the_sdk(recording):
    client = StreamClient("orders", ClientSettings("us-east-1", recording.url))
    client.get_records("i", 10)
    client._client.get_records(ShardIterator="i", Limit=10)
    assert_alike(*recording.requests)


@pytest.mark.parametrize(
    "position",
    [
        BEGINNING,
        Position.at_timestamp(datetime.now(UTC) - timedelta(seconds=1.234)),
        Position(PositionKind.AT_SEQUENCE_NUMBER, sequence_number="7"),
    ],
    ids=lambda position: position.kind,
)
def test_get_shard_iterator_is_requested_as_by_the_sdk(recording, position):
    for attempts in (1, 2):  # directly, then by the SDK with its retries
        client = StreamClient("orders", ClientSettings("us-east-1", recording.url), attempts=attempts)
        assert client.shard_iterator(SHARD, position) == "i"
    assert "amz-sdk-request" not in parsed(recording.requests[0])[1]
    assert_alike(*recording.requests)


@pytest.mark.parametrize("token", [None, "session token"])
def test_the_signature_matches_the_request_that_was_sent(recording, monkeypatch, token):
    if token:
        monkeypatch.setenv("AWS_SESSION_TOKEN", token)
    StreamClient("orders", ClientSettings("us-east-1", recording.url)).get_records("i", 10)
    _, headers, body = parsed(recording.requests[0])
    authorization = headers["authorization"]
    signed = authorization.partition("SignedHeaders=")[2].partition(",")[0].split(";")
    request = AWSRequest("POST", recording.url, {name: headers[name] for name in signed}, body)
    signer = SigV4Auth(Credentials("test", "test", token), "kinesis", "us-east-1")
    signed_at = datetime.strptime(headers["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda: signed_at)
    signer.add_auth(request)
    assert request.headers["Authorization"] == authorization


def test_get_shard_iterator_is_retried_only_by_a_client_with_several_attempts(
    kinesis, stream, settings, faults
):
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    faults.answer("GetShardIterator", lambda _, response: response.error("InternalFailure", 500), times=1)
    with pytest.raises(CallFailed, match="InternalFailure"):
        StreamClient(stream, settings, attempts=1).shard_iterator(SHARD, BEGINNING)
    faults.answer("GetShardIterator", lambda _, response: response.error("InternalFailure", 500), times=1)
    assert StreamClient(stream, settings, attempts=2).shard_iterator(SHARD, BEGINNING)
