"""If a private name of botocore or urllib3 is missing, the SDK makes the calls and a warning names it."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks.harness.waiting import SECONDS
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.position import Position
from kinesis_assets.kinesis.reading.range import Bounds, RangeEnd, ShardRange
from kinesis_assets.kinesis.reading.reading import ShardReading
from kinesis_assets.kinesis.transport import sdk_internals

SHARD = "shardId-000000000000"

NAMES = [
    ("botocore.client:BaseClient", "_request_signer"),
    ("botocore.client:BaseClient", "_endpoint"),
    ("botocore.endpoint:Endpoint", "http_session"),
    ("botocore.signers:RequestSigner", "sign"),
    ("botocore.signers:RequestSigner", "_credentials"),
    ("botocore.awsrequest", "AWSRequest"),
    ("botocore.awsrequest:AWSRequest", "data"),
    ("botocore.awsrequest:AWSRequest", "headers"),
    ("botocore.parsers", "JSONParser"),
    ("botocore.parsers:JSONParser", "parse"),
    ("botocore.httpsession", "mask_proxy_url"),
    ("botocore.httpsession:URLLib3Session", "_proxy_config"),
    ("botocore.httpsession:ProxyConfiguration", "proxy_url_for"),
    ("botocore.httpsession:URLLib3Session", "_get_connection_manager"),
    ("botocore.httpsession:URLLib3Session", "_setup_ssl_cert"),
    ("botocore.httpsession:URLLib3Session", "_verify"),
    ("urllib3.util.proxy", "connection_requires_http_tunnel"),
    ("urllib3.util.ssl_match_hostname", "CertificateError"),
    ("urllib3.connectionpool:HTTPConnectionPool", "proxy"),
    ("urllib3.connectionpool:HTTPConnectionPool", "proxy_config"),
    ("urllib3.connectionpool:HTTPConnectionPool", "proxy_headers"),
    ("urllib3.connectionpool:HTTPConnectionPool", "timeout"),
    ("urllib3.connectionpool:HTTPConnectionPool", "_get_conn"),
    ("urllib3.connectionpool:HTTPConnectionPool", "_put_conn"),
    ("urllib3.connectionpool:HTTPConnectionPool", "_new_conn"),
    ("urllib3.connectionpool:HTTPConnectionPool", "_prepare_proxy"),
    *(
        ("urllib3.connection:HTTPConnection", name)
        for name in ("is_closed", "has_connected_to_proxy", "proxy", "sock", "timeout", "connect")
    ),
]


def hide(patch, owner, name):
    """Hide a name of an owner from the modules of this package, but not from the SDK."""
    module, _, kind = owner.partition(":")
    hidden = getattr(import_module(module), kind) if kind else import_module(module)
    is_module = isinstance(hidden, ModuleType)
    original = ModuleType.__getattribute__ if is_module else hidden.__getattribute__

    def look_up(self, asked):
        of_ours = sys._getframe(1).f_globals.get("__name__", "").startswith("kinesis_assets")
        if asked == name and of_ours:
            raise AttributeError(f"{self!r} has no {name}")
        return original(self, asked)

    if is_module:
        patch.setattr(hidden, "__class__", type("Hiding", (ModuleType,), {"__getattribute__": look_up}))
    else:
        patch.setattr(hidden, "__getattribute__", look_up, raising=False)


@pytest.fixture(autouse=True)
def not_warned_yet():
    sdk_internals._warned.clear()


def three_records(kinesis, stream):
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    for item in range(3):
        kinesis.put_record(StreamName=stream, Data=b"%d" % item, PartitionKey="k")


def read(client):
    """A shard's data and the reason for the end of its range."""
    range_ = ShardRange(SHARD, Position.parse("TRIM_HORIZON"), Bounds(), ("0", str((1 << 128) - 1)))
    reading = ShardReading(client, range_)
    return [record.data for records in reading for record in records], reading.end


def test_calls_are_made_directly_without_a_warning_if_every_name_exists(stream, settings, caplog):
    client = StreamClient(stream, settings)
    assert not client.settings.sdk_parser
    assert caplog.messages == []


@pytest.mark.parametrize(("owner", "name"), NAMES, ids=[f"{owner}.{name}" for owner, name in NAMES])
def test_without_a_private_name_the_sdk_reads_the_shard_and_a_warning_names_it(
    kinesis, stream, settings, monkeypatch, caplog, owner, name
):
    three_records(kinesis, stream)
    with monkeypatch.context() as patch:
        hide(patch, owner, name)
        client = StreamClient(stream, settings, attempts=1)
        assert read(client) == ([b"0", b"1", b"2"], RangeEnd.TIP)
    assert client.settings.sdk_parser
    (message,) = caplog.messages
    assert f" no {name}" in message
    assert "(botocore " in message


def test_a_private_name_that_is_missing_is_named_once_a_process(stream, settings, monkeypatch, caplog):
    with monkeypatch.context() as patch:
        hide(patch, *NAMES[0])
        clients = [StreamClient(stream, settings) for _ in range(2)]
    assert [client.settings.sdk_parser for client in clients] == [True, True]
    assert len(caplog.messages) == 1


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        ("botocore.httpsession:URLLib3Session", "_get_connection_manager"),
        ("botocore.httpsession:URLLib3Session", "_setup_ssl_cert"),
        ("urllib3.connectionpool:HTTPConnectionPool", "_get_conn"),
        ("urllib3.connectionpool:HTTPConnectionPool", "_put_conn"),
    ],
)
def test_a_private_function_that_takes_other_arguments_counts_as_missing(
    stream, settings, monkeypatch, caplog, owner, name
):
    module, _, kind = owner.partition(":")
    with monkeypatch.context() as patch:
        patch.setattr(getattr(import_module(module), kind), name, lambda _, *, other: other)
        assert StreamClient(stream, settings).settings.sdk_parser
    (message,) = caplog.messages
    assert "differs" in message


ALL_HIDDEN = """
import logging, sys
sys.path.insert(0, sys.argv[1])
from pytest import MonkeyPatch
from test_sdk_internals import NAMES, hide, read
logging.basicConfig(format="%(message)s")
with MonkeyPatch.context() as patch:
    for name in [name for name in sys.modules if name.startswith("kinesis_assets")]:
        del sys.modules[name]
    for owner, name in NAMES + [("botocore.parsers", "ResponseParserError")]:
        hide(patch, owner, name)
    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.kinesis.settings import ClientSettings
    from kinesis_assets.kinesis.position import Position
    client = StreamClient(sys.argv[2], ClientSettings("us-east-1", sys.argv[3]))
    iterator = client.shard_iterator("shardId-000000000000", Position.parse("TRIM_HORIZON"))
    page, _ = client.get_records(iterator, 10)
    print(*(record.data.decode() for record in page.records))
"""


@pytest.mark.slow
def test_the_package_loads_and_reads_where_every_private_name_is_missing(kinesis, stream, settings):
    three_records(kinesis, stream)
    done = subprocess.run(
        [sys.executable, "-c", ALL_HIDDEN, str(Path(__file__).parent), stream, settings.endpoint_url],
        env=os.environ,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["0", "1", "2"]
    assert len(done.stderr.splitlines()) == 1


def test_the_parser_error_falls_back_to_value_error(monkeypatch):
    with monkeypatch.context() as patch:
        hide(patch, "botocore.parsers", "ResponseParserError")
        assert sdk_internals.parser_error() is ValueError


def test_every_name_that_is_looked_up_is_hidden_by_a_test():
    tree = ast.parse(Path(sdk_internals.__file__).read_text())
    looked_up = {
        call.args[1].value
        for call in ast.walk(tree)
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Name)
        and call.func.id in {"_private", "_of_module"}
        and isinstance(call.args[1], ast.Constant)
    }
    assert len(looked_up) > 15
    assert looked_up - {name for _, name in NAMES} == {"ResponseParserError"}
