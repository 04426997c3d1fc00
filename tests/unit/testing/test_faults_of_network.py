"""The network fails: the call is carried out, its answer is not as it should be."""

from __future__ import annotations

import errno
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.client import HTTPConnection, IncompleteRead

import pytest
from botocore.exceptions import ConnectionClosedError, ReadTimeoutError

from kinesis_assets.testing import Faults, LocalKinesis


def until(condition):
    """Wait for a condition, but not for ever."""
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.fixture(autouse=True)
def silent(caplog):
    """The server has nothing to say about what was asked of it."""
    caplog.set_level(logging.WARNING)
    yield
    assert [record.getMessage() for record in caplog.get_records("call")] == []


@pytest.fixture
def aside():
    """Calls in another thread."""
    with ThreadPoolExecutor() as pool:
        yield pool.submit


def test_reset_connection_gives_no_answer(orders, faults):
    iterator = orders.iterator()
    faults.reset(times=1)
    with pytest.raises(ConnectionClosedError) as caught:
        orders.page(iterator)
    # A connection that is merely closed gives a RemoteDisconnected, which is a ConnectionResetError too.
    assert caught.value.kwargs["error"].args[1].errno == errno.ECONNRESET
    assert orders.page(iterator)["Records"] == []


def test_reset_stays_one_though_the_answer_is_changed(orders, faults):
    iterator = orders.iterator()
    faults.answer("GetRecords", lambda _, answer: answer.but(Records=[]))
    faults.reset()
    with pytest.raises(ConnectionClosedError):
        orders.page(iterator)


def test_reset_comes_after_the_call_was_carried_out(orders, faults):
    faults.reset("PutRecord", times=1)
    with pytest.raises(ConnectionClosedError):
        orders.put(b"put, and not known to be")
    assert orders.data() == [b"put, and not known to be"]


def test_reset_is_of_the_calls_own_connection(orders, faults, aside):
    iterator = orders.iterator()
    faults.stall(times=1)
    faults.reset(times=1)
    stalled = aside(orders.page, iterator)
    until(lambda: faults._interceptor.delayed._waiting)
    with pytest.raises(ConnectionClosedError):
        orders.page(iterator)
    faults.clear()
    assert stalled.result(timeout=10)["Records"] == []


def test_stalled_call_runs_into_the_clients_timeout(orders, faults, connect, local_kinesis):
    iterator = orders.iterator()
    impatient = connect(local_kinesis, read_timeout=0.2)
    faults.stall()
    with pytest.raises(ReadTimeoutError):
        impatient.get_records(ShardIterator=iterator)
    until(lambda: not faults._interceptor.delayed._waiting)


def test_stalled_call_is_answered_when_the_faults_are_cleared(orders, faults, aside):
    orders.put(b"0")
    iterator = orders.iterator()
    faults.stall()
    page = aside(orders.page, iterator)
    until(lambda: faults._interceptor.delayed._waiting)
    assert not page.done()
    faults.clear()
    assert [record["Data"] for record in page.result(timeout=10)["Records"]] == [b"0"]


def test_call_that_came_before_the_faults_were_cleared_is_not_stalled_after(orders, faults):
    iterator = orders.iterator()
    faults.before("GetRecords", faults.clear)
    faults.stall()
    assert orders.page(iterator)["Records"] == []


@pytest.mark.parametrize("then", [Faults.stall, Faults.reset, Faults.cut_body])
def test_server_ends_though_an_answer_is_held_back(connect, aside, then):
    faults = Faults()
    faults.delay(60, "ListStreams")
    then(faults, "ListStreams")
    with LocalKinesis(wrap=faults.around) as local:
        answer = aside(connect(local).list_streams)
        until(lambda: faults._interceptor.delayed._waiting)
    with pytest.raises(ConnectionClosedError):
        answer.result(timeout=10)


def test_stalled_call_holds_up_no_other(orders, faults, aside):
    orders.put(b"0")
    iterator = orders.iterator()
    faults.stall(times=1)
    stalled = aside(orders.page, iterator)
    until(lambda: faults._interceptor.delayed._waiting)
    assert len(orders.page(iterator)["Records"]) == 1
    assert not stalled.done()
    faults.clear()
    stalled.result(timeout=10)


def test_delayed_answer_comes_as_much_later_as_all_delays_take(orders, faults):
    iterator = orders.iterator()
    faults.delay(0.2)
    faults.delay(0.1)
    begin = time.monotonic()
    orders.page(iterator)
    assert time.monotonic() - begin >= 0.3


def test_delayed_answer_tells_what_was_when_the_call_came(orders, faults, aside):
    iterator = orders.iterator()
    faults.stall(times=1)
    page = aside(orders.page, iterator)
    until(lambda: faults._interceptor.delayed._waiting)
    orders.put(b"later")
    faults.clear()
    assert page.result(timeout=10)["Records"] == []


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
    """A call past what boto3 makes of its answer."""

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


def test_cut_body_is_a_whole_answer_as_far_as_http_can_tell(faults, list_streams):
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
