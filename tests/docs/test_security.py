"""What docs/security.md shows is so; tests/unit/security tests what it says of credentials and names."""

from __future__ import annotations

import re
from configparser import ConfigParser
from pathlib import Path

import yaml

from kinesis_assets import KinesisStreamComponent
from kinesis_assets.dagster.names import io_manager_key

PAGE = (Path(__file__).parents[2] / "docs" / "security.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_the_stream_of_the_page_reads_by_the_profile_of_the_page():
    (text,) = blocks("yaml")
    resources = KinesisStreamComponent(**yaml.safe_load(text)["attributes"]).build_defs(None).resources or {}
    profile = resources[io_manager_key("clicks")].kinesis.profile_name
    assert f"[profile {profile}]" in blocks("ini")[0]


def test_the_roles_of_the_page_have_an_external_id_and_the_process_names_one_of_them():
    config = ConfigParser()
    for block in blocks("ini"):
        config.read_string(block)
    roles = [name for name in config.sections() if "role_arn" in config[name]]
    assert all({"source_profile", "external_id"} <= config[name].keys() for name in roles)
    process = config["profile lake"]["credential_process"]
    assert f"profile {re.findall('--profile ([a-z-]+)', process)[0]}" in roles
