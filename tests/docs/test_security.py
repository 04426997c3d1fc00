"""The YAML and INI blocks of docs/security.md are valid.

tests/unit/security tests what the page says about credentials and names.
"""

from __future__ import annotations

import json
import re
from configparser import ConfigParser
from pathlib import Path

import yaml

from kinesis_assets import KinesisResource, KinesisStreamComponent
from support.dagster_components import definitions_of
from support.stream_names import io_manager_key

PAGE = (Path(__file__).parents[2] / "docs" / "security.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def documented(number: int) -> KinesisResource:
    """Return the connection of one of the documented streams."""
    attributes = yaml.safe_load(blocks("yaml")[number])["attributes"]
    resources = definitions_of(KinesisStreamComponent(**attributes)).resources or {}
    return resources[io_manager_key("clicks")].kinesis


def test_the_trust_policy_requires_the_external_id_of_the_stream():
    (policy,) = map(json.loads, blocks("json"))
    (statement,) = policy["Statement"]
    role = documented(0).role_for("clicks")
    assert statement["Action"] == "sts:AssumeRole"
    assert statement["Condition"] == {"StringEquals": {"sts:ExternalId": role.external_id}}


def test_the_stream_uses_the_documented_profile():
    assert f"[profile {documented(1).profile_name}]" in blocks("ini")[0]


def test_the_documented_roles_have_an_external_id():
    config = ConfigParser()
    for block in blocks("ini"):
        config.read_string(block)
    roles = [name for name in config.sections() if "role_arn" in config[name]]
    assert all({"source_profile", "external_id"} <= config[name].keys() for name in roles)
    process = config["profile lake"]["credential_process"]
    assert f"profile {re.findall('--profile ([a-z-]+)', process)[0]}" in roles
