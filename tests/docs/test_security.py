"""The YAML and INI blocks of docs/security.md are valid.

tests/unit/security tests what the page says about credentials and names.
"""

from __future__ import annotations

import re
from configparser import ConfigParser
from pathlib import Path

import yaml

from kinesis_assets import KinesisStreamComponent
from kinesis_assets.dagster.names import io_manager_key
from support.dagster_components import definitions_of

PAGE = (Path(__file__).parents[2] / "docs" / "security.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_the_stream_uses_the_documented_profile():
    (text,) = blocks("yaml")
    resources = definitions_of(KinesisStreamComponent(**yaml.safe_load(text)["attributes"])).resources or {}
    profile = resources[io_manager_key("clicks")].kinesis.profile_name
    assert f"[profile {profile}]" in blocks("ini")[0]


def test_the_documented_roles_have_an_external_id():
    config = ConfigParser()
    for block in blocks("ini"):
        config.read_string(block)
    roles = [name for name in config.sections() if "role_arn" in config[name]]
    assert all({"source_profile", "external_id"} <= config[name].keys() for name in roles)
    process = config["profile lake"]["credential_process"]
    assert f"profile {re.findall('--profile ([a-z-]+)', process)[0]}" in roles
