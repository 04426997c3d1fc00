"""Faults of the network: the call takes effect, but the client does not receive its response as usual."""

from __future__ import annotations

import errno
import logging
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from http.client import HTTPConnection, IncompleteRead

import pytest
from botocore.exceptions import ConnectionClosedError, ReadTimeoutError

from benchmarks.harness.waiting import SECONDS, wait_until
from kinesis_assets.testing import Faults, LocalKinesis

until = partial(wait_until, interval=0.005)


@pytest.fixture(autouse=True)
def no_warnings(caplog):
    """Check that the server logs no warning."""
    caplog.set_level(logging.WARNING)
    yield
    assert [record.getMessage() for record in caplog.get_records("call")] == []


@pytest.fixture
def in_thread():
    """Submit a call to another thread."""
    with ThreadPoolExecutor() as pool:
        yield pool.submit


def test_reset_connection_gives_no_answer(orders, faults):
    iterator = orders.iterator()
    faults.reset(times=1)
    with pytest.raises(ConnectionClosedError) as caught:
        orders.page(iterator)
    # A connection that is only closed raises RemoteDisconnected, which is a ConnectionResetError as well.
    assert caught.value.kwargs["error"].args[1].errno == errno.ECONNRESET
    assert orders.page(iterator)["Records"] == []


def test_reset_applies_to_a_changed_answer(orders, faults):
    iterator = orders.iterator()
    faults.answer("GetRecords", lambda _, response: response.but(Records=[]))
    faults.reset()
    with pytest.raises(ConnectionClosedError):
        orders.page(iterator)


def test_reset_call_has_taken_effect(orders, faults):
    faults.reset("PutRecord", times=1)
    with pytest.raises(ConnectionClosedError):
        orders.put(b"put, but not acknowledged")
    assert orders.data() == [b"put, but not acknowledged"]


def test_reset_affects_only_the_connection_of_the_call(orders, faults, in_thread):
    iterator = orders.iterator()
    faults.stall(times=1)
    faults.reset(times=1)
    stalled = in_thread(orders.page, iterator)
    until(lambda: faults._delayed._waiting)
    with pytest.raises(ConnectionClosedError):
        orders.page(iterator)
    faults.clear()
    assert stalled.result(SECONDS)["Records"] == []


@pytest.mark.slow
def test_stalled_call_times_out_in_the_client(orders, faults, connect, local_kinesis):
    iterator = orders.iterator()
    impatient = connect(local_kinesis, read_timeout=0.2)
    faults.stall()
    with pytest.raises(ReadTimeoutError):
        impatient.get_records(ShardIterator=iterator)
    until(lambda: not faults._delayed._waiting)


def test_stalled_call_is_answered_when_the_faults_are_cleared(orders, faults, in_thread):
    orders.put(b"0")
    iterator = orders.iterator()
    faults.stall()
    page = in_thread(orders.page, iterator)
    until(lambda: faults._delayed._waiting)
    assert not page.done()
    faults.clear()
    assert [record["Data"] for record in page.result(SECONDS)["Records"]] == [b"0"]


def test_call_from_before_the_faults_were_cleared_is_not_stalled(orders, faults):
    iterator = orders.iterator()
    faults.before("GetRecords", faults.clear)
    faults.stall()
    assert orders.page(iterator)["Records"] == []


@pytest.mark.parametrize("then", [Faults.stall, Faults.reset, Faults.cut_body])
def test_server_stops_while_an_answer_is_delayed(connect, in_thread, then):
    faults = Faults()
    faults.delay(3600, "ListStreams")
    then(faults, "ListStreams")
    with LocalKinesis(wrap=faults.around) as local:
        response = in_thread(connect(local).list_streams)
        until(lambda: faults._delayed._waiting)
    with pytest.raises(ConnectionClosedError):
        response.result(SECONDS)


def test_stalled_call_does_not_delay_others(orders, faults, in_thread):
    orders.put(b"0")
    iterator = orders.iterator()
    faults.stall(times=1)
    stalled = in_thread(orders.page, iterator)
    until(lambda: faults._delayed._waiting)
    assert len(orders.page(iterator)["Records"]) == 1
    assert not stalled.done()
    faults.clear()
    stalled.result(SECONDS)


def test_delays_add_up(orders, faults, in_thread):
    iterator = orders.iterator()
    delays = []
    faults.answer("GetRecords", lambda _, response: delays.append(response.delay))
    faults.delay(3600)
    faults.delay(1800)
    page = in_thread(orders.page, iterator)
    until(lambda: faults._delayed._waiting)
    assert delays == [5400]
    assert not page.done()
    faults.clear()
    page.result(SECONDS)


@pytest.mark.slow
def test_delayed_call_is_answered_after_the_delay(orders, faults):
    orders.put(b"0")
    faults.delay(0.1)
    assert orders.data() == [b"0"]


def test_delayed_answer_shows_the_state_at_the_time_of_the_call(orders, faults, in_thread):
    iterator = orders.iterator()
    faults.stall(times=1)
    page = in_thread(orders.page, iterator)
    until(lambda: faults._delayed._waiting)
    orders.put(b"later")
    faults.clear()
    assert page.result(SECONDS)["Records"] == []


@pytest.mark.parametrize("on_wire", [False, True])
def test_cut_body_is_a_success_without_records_to_boto3(orders, faults, on_wire):
    orders.put(b"0" * 100_000)
    faults.cut_body(on_wire=on_wire, times=1)
    page = orders.page()
    assert page["ResponseMetadata"]["HTTPStatusCode"] == 200
    assert page.keys() == {"ResponseMetadata"}
    assert orders.data() == [b"0" * 100_000]


@pytest.fixture
def list_streams(local_kinesis):
    """Call ListStreams without boto3, and return the Content-Length and the body."""

    def list_streams():
        with closing(HTTPConnection("127.0.0.1", local_kinesis.port)) as connection:
            headers = {
                "X-Amz-Target": "Kinesis_20131202.ListStreams",
                "Content-Type": "application/x-amz-json-1.1",
            }
            connection.request("POST", "/", b"{}", headers)
            response = connection.getresponse()
            return int(response.headers["Content-Length"]), response.read()

    return list_streams


def test_cut_body_is_a_complete_http_response(faults, list_streams):
    length, whole = list_streams()
    faults.cut_body("ListStreams", kept=0.25)
    assert list_streams() == (length // 4, whole[: length // 4])


@pytest.mark.parametrize("kept", [0, 0.25, 0.99])
def test_body_cut_on_the_wire_is_shorter_than_its_content_length(faults, list_streams, kept):
    length, whole = list_streams()
    faults.cut_body("ListStreams", kept=kept, on_wire=True)
    with pytest.raises(IncompleteRead) as caught:
        list_streams()
    assert caught.value.partial == whole[: int(length * kept)]
    assert caught.value.expected == length - int(length * kept)
