"""The packages that tasks import."""

from __future__ import annotations

import re

import pytest

from kinesis_assets.errors import InvalidInput
from kinesis_assets.spark.environment import pack_environment, task_requirements

NEEDED = {
    *("botocore", "certifi", "jmespath", "python-dateutil", "six", "typing_extensions", "urllib3"),
    *("fastavro", "httptools", "msgspec", "numpy", "protobuf", "pyarrow", "pybase64"),
}


def test_tasks_need_exactly_these_packages_in_the_installed_versions():
    requirements = [requirement.split("==") for requirement in task_requirements()]
    assert {name for name, _ in requirements} == NEEDED
    assert all(re.match(r"\d+\.", version) for _, version in requirements)


@pytest.mark.parametrize("version", ["3", "2.7", "3.12.1", "3.12; rm"])
def test_an_invalid_version_of_python_is_refused(version, tmp_path):
    with pytest.raises(InvalidInput, match=r"as in 3\.12"):
        pack_environment(tmp_path / "environment.tar.gz", version)
    assert not list(tmp_path.iterdir())
