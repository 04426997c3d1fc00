"""A session on EMR Serverless, in whose place a proxy demands tokens in front of a real Spark Connect server.

It shows that the token is replaced under a running session. Nothing here was compared with AWS.
"""

from __future__ import annotations

import time

import pytest

from support.tables import numbers, put_numbers
from support.token_proxy import TokenProxy

SESSION = "/applications/00f1/sessions/s1"
SETTINGS = {
    "service": "emr-serverless",
    "application_id": "00f1",
    "execution_role_arn": "arn:aws:iam::111122223333:role/kinesis-assets",
}


@pytest.fixture
def service(connect_server, monkeypatch):
    """The stand-in for EMR Serverless, whose tokens are valid for 16 seconds.

    A token is replaced after half of that, so that a call may take the other half to arrive.
    """
    with TokenProxy(connect_server.url, seconds=16) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL_EMR_SERVERLESS", proxy.url)
        yield proxy


def test_a_run_replaces_its_token_and_stops_its_session(
    service, python_with_packages, run, kinesis, stream, faults, tmp_path
):
    put_numbers(kinesis, stream, 400, shards=2)
    faults.page_size(20, stream=stream)
    faults.delay(2.0, stream=stream, times=20)  # ten pages of each shard take longer than a token is valid
    code, events, errors = run(managed_spark=SETTINGS, python_executable=python_with_packages)
    assert (code, len(events)) == (0, 2), errors
    assert numbers(tmp_path / "table") == list(range(400))
    assert service.requests[:3] == [
        ("POST", "/applications/00f1/sessions"),
        ("GET", SESSION),
        ("GET", f"{SESSION}/endpoint"),
    ]
    assert service.requests[-1] == ("DELETE", SESSION)
    assert min(service.tokens.values()) < time.time()
    assert len(set(service.used)) > 1
    assert service.refused == []


@pytest.mark.thorough
def test_a_run_without_records_stops_its_session(service, python_with_packages, run, kinesis, stream):
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    code, _, errors = run(managed_spark=SETTINGS, python_executable=python_with_packages)
    assert code == 0, errors
    started = [request for request in service.requests if request[0] == "POST"]
    stopped = [request for request in service.requests if request[0] == "DELETE"]
    assert len(started) == len(stopped)
