"""The wheel works in an empty environment, and contains nothing of the deployed project."""

from __future__ import annotations

import json
import re
import subprocess
import zipfile
from email.parser import BytesParser
from pathlib import Path
from typing import TYPE_CHECKING

import boto3
import pytest
from deltalake import DeltaTable

import kinesis_assets
from support.clean_environment import run
from support.mentions import numbers

if TYPE_CHECKING:
    from collections.abc import Iterator

PROJECT = Path(kinesis_assets.__file__).parents[1]
RECORDS = [b"click %d" % number for number in range(20)]


def test_the_wheel_holds_the_package_without_this_repository_s_project(wheel):
    with zipfile.ZipFile(wheel) as content:
        names = {name for name in content.namelist() if ".dist-info/" not in name}
    package = PROJECT / "kinesis_assets"
    files = {path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    deployed = {path for path in files if path.is_relative_to(package / "defs")} | {
        package / "definitions.py"
    }
    assert names == {path.relative_to(PROJECT).as_posix() for path in files - deployed}


def test_the_metadata_name_the_version_of_the_package(wheel):
    with zipfile.ZipFile(wheel) as content:
        (metadata,) = (name for name in content.namelist() if name.endswith("/METADATA"))
        fields = BytesParser().parsebytes(content.read(metadata))
    assert fields["Version"] == kinesis_assets.__version__
    assert not any(requirement.startswith("pandas") for requirement in fields.get_all("Requires-Dist"))


def test_the_readme_says_how_much_space_an_environment_takes(installed):
    (gigabytes,) = re.findall(r"takes ([0-9.]+) GB", (PROJECT / "README.md").read_text())
    files = (path for path in installed.parent.rglob("*") if path.is_file() and not path.is_symlink())
    assert float(gigabytes) == pytest.approx(sum(path.stat().st_size for path in files) / 1e9, rel=0.2)


def test_the_demonstration_verifies_that_each_record_is_in_the_table_exactly_once(installed, tmp_path):
    printed = run(installed / "kinesis-assets", "demo", cwd=tmp_path, env={"TMPDIR": str(tmp_path)})
    *_, result, place = printed.splitlines()
    assert numbers(result) == [25_000] * 3  # acknowledged, in the table, and there exactly once
    assert "exactly once" in result
    assert Path(place.partition(": ")[2], "_delta_log").is_dir()
    shards = re.findall(r"^(shardId-\d{12}) .* (open|finished) ", printed, flags=re.MULTILINE)
    assert [state for _, state in shards] == ["finished"] * 3 + ["open"] * 4
    assert "Traceback" not in printed


@pytest.fixture
def stream(installed: Path, tmp_path: Path) -> Iterator[dict[str, str]]:
    """The stream `clicks` on the embedded endpoint of the environment, and the variables that lead to it."""
    keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1"}
    command = [installed / "kinesis-assets", "local", "--port", "0"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            url = server.stdout.readline().strip()
            kinesis = boto3.client(
                "kinesis",
                endpoint_url=url,
                region_name=keys["AWS_REGION"],
                aws_access_key_id="test",
                aws_secret_access_key="test",  # noqa: S106  # the embedded stream takes any
            )
            kinesis.create_stream(StreamName="clicks", ShardCount=2)
            entries = [{"Data": data, "PartitionKey": data.decode()} for data in RECORDS]
            kinesis.put_records(StreamName="clicks", Records=entries)
            yield keys | {"AWS_ENDPOINT_URL_KINESIS": url}
        finally:
            server.terminate()


DEFINITIONS = """
from pathlib import Path

import dagster as dg


@dg.definitions
def defs():
    return dg.load_from_defs_folder(path_within_project=Path(__file__).parent)
"""


def test_an_empty_project_with_one_defs_yaml_loads_and_materializes(installed, stream, tmp_path):
    stream_folder = tmp_path / "lake" / "defs" / "clicks"
    stream_folder.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text(
        '[tool.dg]\ndirectory_type = "project"\n\n[tool.dg.project]\nroot_module = "lake"\n'
    )
    (tmp_path / "lake" / "__init__.py").touch()
    (tmp_path / "lake" / "definitions.py").write_text(DEFINITIONS)
    attributes = {"stream": "clicks", "table": str(tmp_path / "table")}
    component = {"type": "kinesis_assets.KinesisStreamComponent", "attributes": attributes}
    (stream_folder / "defs.yaml").write_text(json.dumps(component))
    env = stream | {"PYTHONPATH": str(tmp_path)}  # instead of installing the project

    run(installed / "dagster", "definitions", "validate", "-m", "lake.definitions", cwd=tmp_path, env=env)
    printed = run(installed / "kinesis-assets", "run", "--stream", "clicks", "--json", cwd=tmp_path, env=env)

    assert [json.loads(line)["state"] for line in printed.splitlines()] == ["committed", "committed"]
    assert sorted(DeltaTable(tmp_path / "table").to_pyarrow_table()["data"].to_pylist()) == sorted(RECORDS)
