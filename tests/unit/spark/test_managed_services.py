"""The requests to the services of AWS, and what their responses mean.

The SDK checks the requests against its description of the services. No service of AWS is called.
"""

from __future__ import annotations

from datetime import UTC, datetime

import boto3
import pytest
from botocore.stub import Stubber

from kinesis_assets.dagster.settings.spark_settings import parse
from kinesis_assets.spark.managed import SERVICES, Endpoint

ROLE = "arn:aws:iam::111122223333:role/kinesis-assets"
EXPIRES = datetime(2026, 1, 31, 12, tzinfo=UTC)
ARN = "arn:aws:emr-serverless:us-east-1:111122223333:/applications/00f1/sessions/s1"
SPARK = {"spark.executor.memory": "4g", "spark.executor.cores": "2"}
DEFAULTS = {"classification": "spark-defaults", "properties": SPARK}


@pytest.fixture
def stubbed():
    """Returns a service and the stub of its client."""

    def create(**settings):
        name = settings["service"]
        client = boto3.client(
            name,
            region_name="us-east-1",
            aws_access_key_id="test",
            aws_secret_access_key="test",  # noqa: S106
        )
        stub = Stubber(client)
        stub.activate()
        stubs.append(stub)
        return SERVICES[name](client, parse(settings), SPARK), stub

    stubs: list[Stubber] = []
    yield create
    for stub in stubs:
        stub.assert_no_pending_responses()


@pytest.fixture
def emr_serverless(stubbed):
    return stubbed(
        service="emr-serverless", application_id="00f1", execution_role_arn=ROLE, tags={"team": "sales"}
    )


@pytest.fixture
def emr(stubbed):
    return stubbed(service="emr", cluster_id="j-1", tags={"team": "sales"}, idle_timeout_minutes=30)


@pytest.fixture
def glue(stubbed):
    return stubbed(service="glue", execution_role_arn=ROLE, workers=5, tags={"team": "sales"})


def test_a_session_on_emr_serverless_has_the_settings_of_spark_and_the_tags(emr_serverless):
    service, stub = emr_serverless
    request = {
        "applicationId": "00f1",
        "executionRoleArn": ROLE,
        "clientToken": "name",
        "name": "name",
        "idleTimeoutMinutes": 15,
        "tags": {"team": "sales"},
        "configurationOverrides": {"runtimeConfiguration": [DEFAULTS]},
    }
    stub.add_response("start_session", {"applicationId": "00f1", "sessionId": "s1", "arn": ARN}, request)
    assert service.start("name") == "s1"


def test_a_session_on_emr_has_the_settings_of_spark_and_the_tags(emr):
    service, stub = emr
    request = {
        "ClusterId": "j-1",
        "ClientRequestToken": "name",
        "Name": "name",
        "SessionIdleTimeoutInMinutes": 30,
        "Tags": [{"Key": "team", "Value": "sales"}],
        "EngineConfigurations": [{"Classification": "spark-defaults", "Properties": SPARK}],
    }
    stub.add_response("start_session", {"Id": "s1"}, request)
    assert service.start("name") == "s1"


def test_a_session_of_glue_is_one_of_spark_connect_with_the_settings_of_spark_and_the_tags(glue):
    service, stub = glue
    request = {
        "Id": "name",
        "Role": ROLE,
        "Command": {"Name": "glueetl", "PythonVersion": "3"},
        "SessionType": "SPARK_CONNECT",
        "GlueVersion": "6.0",
        "WorkerType": "G.1X",
        "NumberOfWorkers": 5,
        "IdleTimeout": 15,
        "Tags": {"team": "sales"},
        "DefaultArguments": {
            "--language": "python",
            "--conf": "spark.executor.memory=4g --conf spark.executor.cores=2",
        },
    }
    stub.add_response("create_session", {}, request)
    assert service.start("name") == "name"


def test_a_session_of_glue_that_exists_when_its_request_is_repeated_is_started(glue):
    service, stub = glue
    stub.add_client_error("create_session", "AlreadyExistsException")
    assert service.start("name") == "name"


def meaning(service):
    """Return what the state of a session means."""
    state = service.status("s1").state
    return "ready" if state in service.ready else "starting" if state in service.starting else "ended"


def _emr_serverless_session(state, **facts):
    return {
        "session": {
            "applicationId": "00f1",
            "sessionId": "s1",
            "arn": ARN,
            "state": state,
            "stateDetails": "",
            "releaseLabel": "emr-7.13.0",
            "executionRoleArn": ROLE,
            "createdBy": ROLE,
            "createdAt": EXPIRES,
            "updatedAt": EXPIRES,
            **facts,
        }
    }


@pytest.mark.parametrize(
    ("state", "means"),
    [
        ("SUBMITTED", "starting"),
        ("STARTING", "starting"),
        ("STARTED", "ready"),
        ("IDLE", "ready"),
        ("BUSY", "ready"),
        ("FAILED", "ended"),
        ("TERMINATED", "ended"),
        ("A_STATE_OF_LATER", "ended"),
    ],
)
def test_the_states_of_emr_are_understood(emr, emr_serverless, state, means):
    service, stub = emr
    session = {"Id": "s1", "ClusterId": "j-1", "Arn": ARN, "State": state, "StateChangeReason": "why"}
    stub.add_response("get_session", {"Session": session}, {"ClusterId": "j-1", "SessionId": "s1"})
    assert meaning(service) == means
    service, stub = emr_serverless
    stub.add_response("get_session", _emr_serverless_session(state, stateDetails="why"))
    assert meaning(service) == means
    stub.add_response("get_session", _emr_serverless_session(state, stateDetails="why"))
    assert str(service.status("s1")) == f"{state}: why"


@pytest.mark.parametrize(
    ("state", "means"),
    [
        ("PROVISIONING", "starting"),
        ("READY", "ready"),
        ("TIMEOUT", "ended"),
        ("STOPPED", "ended"),
    ],
)
def test_the_states_of_glue_are_understood(glue, state, means):
    service, stub = glue
    stub.add_response("get_session", {"Session": {"Status": state}}, {"Id": "s1"})
    assert meaning(service) == means


def test_the_endpoints_have_a_url_a_token_and_its_expiry(emr, emr_serverless, glue):
    endpoint = Endpoint("https://spark.example", "secret", EXPIRES)
    service, stub = emr
    stub.add_response(
        "get_session_endpoint",
        {"Endpoint": endpoint.url, "AuthToken": "secret", "AuthTokenExpirationTime": EXPIRES},
        {"ClusterId": "j-1", "SessionId": "s1"},
    )
    assert service.endpoint("s1") == endpoint
    service, stub = emr_serverless
    stub.add_response(
        "get_session_endpoint",
        {
            "applicationId": "00f1",
            "sessionId": "s1",
            "endpoint": endpoint.url,
            "authToken": "secret",
            "authTokenExpiresAt": EXPIRES,
        },
        {"applicationId": "00f1", "sessionId": "s1"},
    )
    assert service.endpoint("s1") == endpoint
    service, stub = glue
    found = {"Url": endpoint.url, "AuthToken": "secret", "AuthTokenExpirationTime": EXPIRES}
    stub.add_response("get_session_endpoint", {"SparkConnect": found}, {"SessionId": "s1"})
    assert service.endpoint("s1") == endpoint


def test_a_session_is_stopped_by_its_id(emr, emr_serverless, glue):
    service, stub = emr
    stopped = {"ClusterId": "j-1", "SessionId": "s1"}
    stub.add_response("terminate_session", {**stopped, "State": "TERMINATING"}, stopped)
    service.stop("s1")
    service, stub = emr_serverless
    stopped = {"applicationId": "00f1", "sessionId": "s1"}
    stub.add_response("terminate_session", stopped, stopped)
    service.stop("s1")
    service, stub = glue
    stub.add_response("stop_session", {"Id": "s1"}, {"Id": "s1"})
    service.stop("s1")


def test_an_endpoint_shows_no_token():
    assert "secret" not in repr(Endpoint("https://spark.example", "secret", EXPIRES))
