"""The zip of this package for executors."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from unittest.mock import MagicMock

import pytest

from kinesis_assets.errors import LandingFailed
from kinesis_assets.spark.local_settings import CHECKED
from kinesis_assets.spark.packages import add_package, code_hash, package_archive

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """The folder of caches of this test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.slow
def test_a_bare_interpreter_imports_the_package_from_it(tmp_path):
    code = "import kinesis_assets.spark.probe_task as module; print(module.__file__)"
    found = subprocess.run(
        [
            sys.executable,
            "-I",
            "-S",
            "-c",
            f"import sys; sys.path.insert(1, {str(package_archive())!r}); {code}",
        ],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=True,
    ).stdout
    assert found.startswith(str(package_archive()))


def test_a_session_to_which_it_could_not_be_sent_is_to_be_checked():
    """Mocked: a session on a cluster, which refuses the file."""
    spark = MagicMock()
    spark.sparkContext.listFiles = []
    spark.sparkContext.addPyFile.side_effect = ConnectionError
    with pytest.raises(ConnectionError):
        add_package(spark)
    spark.conf.set.assert_called_once_with(CHECKED, "")


def test_its_name_has_the_version_of_the_code(cache):
    assert package_archive() == cache / "kinesis-assets" / f"kinesis_assets-{code_hash()}.zip"


def test_it_has_no_definitions_of_this_repository():
    names = set(zipfile.ZipFile(package_archive()).namelist())
    assert "kinesis_assets/ingest/task.py" in names
    assert "kinesis_assets/definitions.py" not in names
    assert not [name for name in names if name.startswith("kinesis_assets/defs/")]


def test_it_is_made_once():
    before = package_archive().stat()
    assert package_archive().stat().st_mtime_ns == before.st_mtime_ns


@pytest.mark.slow
def test_a_truncated_zip_is_replaced():
    archive = package_archive()
    content = archive.read_bytes()
    archive.write_bytes(content[: len(content) // 2])
    assert zipfile.ZipFile(package_archive()).testzip() is None


def test_no_other_file_is_left_beside_it():
    assert list(package_archive().parent.iterdir()) == [package_archive()]


def test_a_folder_that_cannot_be_written_to_is_named(cache):
    cache.write_text("a file")
    with pytest.raises(LandingFailed, match="XDG_CACHE_HOME"):
        package_archive()
