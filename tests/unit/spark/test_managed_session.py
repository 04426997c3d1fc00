"""A session on a service of AWS, from its start to its stop."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

import pytest
from botocore.exceptions import ClientError

from kinesis_assets.errors import LandingFailed
from kinesis_assets.spark.managed import SECONDS_TO_START, Endpoint, Service, Status, open_session
from support.virtual_time import VirtualTime

DENIED = ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, "StartSession")


class StandIn(Service):
    """A service of which the test decides what it answers, in place of one of AWS."""

    title = "Stand-in"
    ready = frozenset({"ready"})
    starting = frozenset({"starting"})

    def __init__(self, clock):
        super().__init__(None, {}, {})
        self.clock = clock
        self.states = ["ready"]
        self.url = "https://spark.example"
        self.errors = {}
        self.stopped = []
        self.tokens = 0

    def _fail(self, call):
        if call in self.errors:
            raise self.errors[call]

    def start(self, name):
        del name
        self._fail("start")
        return "s1"

    def status(self, session_id):
        del session_id
        self._fail("status")
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        return Status(state, "because")

    def endpoint(self, session_id):
        del session_id
        self._fail("endpoint")
        self.tokens += 1
        expires = datetime.fromtimestamp(self.clock.time() + 3600, UTC)
        return Endpoint(self.url, f"token {self.tokens}", expires)

    def stop(self, session_id):
        self._fail("stop")
        self.stopped.append(session_id)


@pytest.fixture
def clock():
    return VirtualTime()


@pytest.fixture
def service(clock):
    return StandIn(clock)


def test_a_session_is_opened_as_soon_as_it_is_ready(service, clock):
    service.states = ["starting", "starting", "ready"]
    session = open_session(service, clock)
    assert session.server.url == "sc://spark.example:443/;use_ssl=true"
    assert session.server.token() == "token 1"
    assert clock.waits == [1, 2]
    assert service.stopped == []


def test_an_endpoint_of_spark_connect_is_used_as_it_is(service, clock):
    service.url = "sc://127.0.0.1:15002"
    assert open_session(service, clock).server.url == "sc://127.0.0.1:15002"


def test_a_session_that_is_refused_is_an_error_that_names_the_service(service, clock):
    service.errors["start"] = DENIED
    with pytest.raises(LandingFailed, match=r"Stand-in .*AccessDeniedException.*\. Check "):
        open_session(service, clock)
    assert service.stopped == []


def test_a_session_that_ends_while_it_starts_is_an_error_with_its_reason(service, clock):
    service.states = ["starting", "ended"]
    with pytest.raises(LandingFailed, match=r"s1 on Stand-in .*ended: because"):
        open_session(service, clock)


def test_a_session_that_does_not_become_ready_is_stopped(service, clock):
    service.states = ["starting"]
    with pytest.raises(LandingFailed, match=r"s1 on Stand-in .*starting: because"):
        open_session(service, clock)
    assert SECONDS_TO_START <= sum(clock.waits) <= SECONDS_TO_START + 10
    assert service.stopped == ["s1"]


@pytest.mark.parametrize("call", ["status", "endpoint"])
def test_a_session_that_cannot_be_used_is_stopped(service, clock, call):
    service.errors[call] = DENIED
    with pytest.raises(LandingFailed, match=r"s1 on Stand-in .*AccessDeniedException.*\. Check "):
        open_session(service, clock)
    assert service.stopped == ["s1"]


def test_a_run_that_is_interrupted_while_it_waits_leaves_no_session(service, clock):
    service.errors["status"] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        open_session(service, clock)
    assert service.stopped == ["s1"]


def test_a_session_that_cannot_be_stopped_is_a_warning(service, clock, caplog):
    session = open_session(service, clock)
    service.errors["stop"] = DENIED
    with caplog.at_level(logging.WARNING):
        session.stop()
    assert "Stand-in session s1" in caplog.text


# The token


def test_a_token_is_replaced_after_ten_minutes(service, clock):
    token = open_session(service, clock).server.token
    clock.now += 599
    assert token() == "token 1"
    clock.now += 1
    assert [token(), token()] == ["token 2", "token 2"]


def test_a_token_that_is_valid_for_a_short_time_is_replaced_half_way(service, clock):
    short = service.endpoint

    def endpoint(session_id):
        found = short(session_id)
        return Endpoint(found.url, found.token, datetime.fromtimestamp(clock.time() + 20, UTC))

    service.endpoint = endpoint
    token = open_session(service, clock).server.token
    clock.now += 9
    assert token() == "token 1"
    clock.now += 1
    assert token() == "token 2"


def test_with_a_clock_that_is_ahead_a_token_is_replaced_at_most_once_per_second(service, clock):
    service.clock = VirtualTime()
    clock.now += 10_000
    token = open_session(service, clock).server.token
    assert [token(), token()] == ["token 1", "token 1"]
    clock.now += 1
    assert token() == "token 2"


def test_the_old_token_is_used_while_no_new_one_can_be_had(service, clock, caplog):
    token = open_session(service, clock).server.token
    service.errors["endpoint"] = DENIED
    clock.now += 600
    assert token() == "token 1"
    assert "AccessDeniedException" in caplog.text
    del service.errors["endpoint"]
    clock.now += 1
    assert token() == "token 2"
