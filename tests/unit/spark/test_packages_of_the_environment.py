"""The packages that tasks import."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import kinesis_assets
from kinesis_assets.errors import InvalidInput
from kinesis_assets.spark.packages import pack_environment, task_requirements

NEEDED = {
    *("botocore", "certifi", "jmespath", "python-dateutil", "six", "typing_extensions", "urllib3"),
    *("fastavro", "grpcio-tools", "httptools", "msgspec", "numpy", "protobuf", "pyarrow", "pybase64"),
    *("Authlib", "anyio", "attrs", "cachetools", "cffi", "confluent-kafka", "cramjam", "cryptography"),
    *("h2", "hpack", "hyperframe"),
    *("h11", "httpcore2", "httpx2", "idna", "joserfc", "truststore"),
}


@pytest.mark.slow
def test_tasks_need_exactly_these_packages_in_the_installed_versions():
    requirements = [requirement.split("==") for requirement in task_requirements()]
    assert {name for name, _ in requirements} == NEEDED
    assert all(re.match(r"\d+\.", version) for _, version in requirements)


@pytest.mark.thorough
@pytest.mark.slow
def test_this_package_is_not_packed_where_a_wheel_of_it_is_installed(tmp_path):
    package = Path(kinesis_assets.__file__).parent
    (tmp_path / package.name).symlink_to(package)
    record = tmp_path / "kinesis_assets-0.1.0.dist-info"
    record.mkdir()
    (record / "METADATA").write_text("Name: kinesis-assets\nVersion: 0.1.0\n")
    modules = (path.relative_to(package.parent).as_posix() for path in package.rglob("*.py"))
    (record / "RECORD").write_text("".join(f"{module},,\n" for module in modules))
    printing = "from kinesis_assets.spark.packages import *; print(*task_requirements())"
    done = subprocess.run(
        [sys.executable, "-c", printing],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert {requirement.partition("==")[0] for requirement in done.stdout.split()} == NEEDED


@pytest.mark.parametrize("version", ["3", "2.7", "3.12.1", "3.12; rm"])
def test_an_invalid_version_of_python_is_refused(version, tmp_path):
    with pytest.raises(InvalidInput, match=r"as in 3\.12"):
        pack_environment(tmp_path / "environment.tar.gz", version)
    assert not list(tmp_path.iterdir())


def test_an_archive_that_spark_would_not_unpack_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match=r"environment\.zip.*\.tar\.gz"):
        pack_environment(tmp_path / "environment.zip", "3.12")
