"""A registry that is read with a role, such as one of another account."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

import pytest

from kinesis_assets import RegistryCallFailed
from kinesis_assets.decoders import GlueRegistry
from kinesis_assets.errors import InvalidInput
from support.token_service import BASE_KEY, EXTERNAL_ID, ROLE

pytestmark = pytest.mark.slow

UNKNOWN = "00000000-0000-4000-8000-000000000000"
REFUSED = f"role {ROLE} cannot be assumed: AssumeRole failed with AccessDenied"


@pytest.fixture
def endpoint(role, registries):
    """The endpoint of a registry, for a process that may assume the role."""
    del role
    return registries.start(200, {"DataFormat": "AVRO", "SchemaDefinition": json.dumps("long")})


@pytest.fixture
def registry(endpoint):
    return GlueRegistry("us-east-1", endpoint, role_arn=ROLE, external_id=EXTERNAL_ID)


@pytest.mark.slow
def test_an_executor_assumes_the_role_of_the_registry(registry, registries, sts):
    on_executor = pickle.loads(pickle.dumps(registry.resolved()))  # noqa: S301  # our own
    assert on_executor.get(UNKNOWN).data_format == "AVRO"
    assert [key in sts.expirations for key in registries.keys] == [True]


@pytest.mark.parametrize(
    ("given", "name"), [({}, "kinesis-assets-registry"), ({"session_name": "orders"}, "orders")]
)
def test_the_sessions_of_the_role_have_a_name(registry, sts, given, name):
    replace(registry, **given).resolved()
    assert {request["RoleSessionName"] for request in sts.requests} == {name}


@pytest.mark.slow
def test_without_a_role_the_credentials_of_the_process_are_used(endpoint, registries, sts):
    GlueRegistry("us-east-1", endpoint).resolved().get(UNKNOWN)
    assert (registries.keys, sts.requests) == ([BASE_KEY], [])


def test_a_role_that_the_driver_cannot_assume_is_reported(registry, registries):
    with pytest.raises(RegistryCallFailed, match=f"Schema Registry.*{REFUSED}"):
        replace(registry, external_id="another").resolved()
    assert registries.requests == []


def test_a_role_that_an_executor_cannot_assume_is_reported(registry, registries):
    with pytest.raises(RegistryCallFailed, match=f"schema version {UNKNOWN}: {REFUSED}"):
        replace(registry, external_id="another").get(UNKNOWN)
    assert registries.requests == []


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"role_arn": "reader"}, "role_arn: invalid ARN"),
        ({"role_arn": ROLE, "external_id": "?"}, "external_id: invalid id"),
        ({"role_arn": ROLE, "session_name": "?"}, "session_name: invalid name"),
        ({"external_id": EXTERNAL_ID}, "external_id: only with role_arn"),
    ],
    ids=str,
)
def test_invalid_settings_of_a_role_are_refused(settings, error):
    with pytest.raises(InvalidInput, match=error):
        GlueRegistry(**settings)
