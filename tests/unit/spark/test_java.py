"""Java that Spark cannot run on is told in one line, before Spark is asked."""

from __future__ import annotations

import os
import sys

import pytest

from kinesis_assets.errors import JavaUnavailable
from kinesis_assets.spark.java import require_java
from kinesis_assets.spark.session import prepare


@pytest.fixture
def java(tmp_path, monkeypatch):
    """Makes the only java on the PATH one that tells a version."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))

    def java(told, status=0):
        script = tmp_path / "bin" / "java"
        script.parent.mkdir()
        script.write_text(f"#!/bin/sh\nprintf '%s\\n' '{told}' >&2\nexit {status}\n")
        script.chmod(0o755)
        return script

    return java


@pytest.mark.parametrize(
    "told",
    [
        'openjdk version "17.0.15" 2025-04-15',
        'java version "21" 2023-09-19 LTS',
        'Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "25-ea" 2025-09-16',
    ],
)
def test_java_of_17_or_newer_will_do(java, told):
    java(told)
    require_java()


@pytest.mark.parametrize(
    ("told", "found"),
    [
        ('openjdk version "16.0.2" 2021-07-20', "Java 16"),
        ('openjdk version "11.0.27" 2025-04-15', "Java 11"),
        ('java version "1.8.0_451"', "Java 8"),
    ],
)
def test_older_java_is_told_by_its_version(java, told, found):
    script = java(told)
    with pytest.raises(JavaUnavailable) as caught:
        require_java()
    assert str(caught.value).startswith(f"Spark needs Java 17 or newer: found {found} at ")
    assert "\n" not in str(caught.value)
    assert script.name in str(caught.value)


def test_java_that_tells_no_version_is_no_usable_one(java):
    java("Unable to locate a Java Runtime", status=1)
    with pytest.raises(JavaUnavailable, match=r"^Spark needs Java 17 or newer: found no usable Java"):
        require_java()


def test_no_java_on_the_path_is_told(tmp_path, monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JavaUnavailable, match=r"^Spark needs Java 17 or newer: no java on the PATH; .*$"):
        require_java()


def test_java_home_without_java_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaUnavailable, match=f"JAVA_HOME is {tmp_path}, which has no bin/java"):
        require_java()


def test_java_home_is_looked_at_before_the_path(java, tmp_path, monkeypatch):
    java('openjdk version "11.0.27"')
    home = tmp_path / "home"
    (home / "bin").mkdir(parents=True)
    script = home / "bin" / "java"
    script.write_text("#!/bin/sh\necho 'openjdk version \"17.0.1\"' >&2\n")
    script.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(home))
    require_java()


def test_a_session_on_spark_connect_needs_no_java_here(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    prepare({"spark.remote": "sc://127.0.0.1:1"})


@pytest.mark.parametrize(("master", "told"), [("local[2,4]", sys.executable), ("spark://127.0.0.1:1", None)])
def test_only_workers_on_this_machine_are_told_to_run_this_python(java, monkeypatch, master, told):
    java('openjdk version "17.0.15" 2025-04-15')
    monkeypatch.setenv("PYSPARK_PYTHON", "")  # so that it is put back
    monkeypatch.delenv("PYSPARK_PYTHON")
    prepare({"spark.master": master})
    assert os.environ.get("PYSPARK_PYTHON") == told
