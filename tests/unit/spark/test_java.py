"""The check of the Java version before Spark is started."""

from __future__ import annotations

import os
import sys

import pytest

from kinesis_assets.errors import JavaUnavailable, LandingFailed
from kinesis_assets.spark.local_settings import require_java
from kinesis_assets.spark.session import prepare, start_session


@pytest.fixture
def java(tmp_path, monkeypatch):
    """Put a single java on the PATH, which prints the given text as its version."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))

    def java(output, status=0):
        script = tmp_path / "bin" / "java"
        script.parent.mkdir()
        script.write_text(f"#!/bin/sh\nprintf '%s\\n' '{output}' >&2\nexit {status}\n")
        script.chmod(0o755)
        return script

    return java


@pytest.mark.parametrize(
    "output",
    [
        'openjdk version "17.0.15" 2025-04-15',
        'java version "21" 2023-09-19 LTS',
        'Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "25-ea" 2025-09-16',
    ],
)
def test_java_17_or_newer_is_accepted(java, output):
    java(output)
    require_java()


@pytest.mark.parametrize(
    ("output", "found"),
    [
        ('openjdk version "16.0.2" 2021-07-20', "Java 16"),
        ('openjdk version "11.0.27" 2025-04-15', "Java 11"),
        ('java version "1.8.0_451"', "Java 8"),
    ],
)
def test_older_java_is_refused_with_its_version_and_path(java, output, found):
    script = java(output)
    with pytest.raises(JavaUnavailable) as caught:
        require_java()
    assert str(caught.value).startswith(f"Spark needs Java 17 or newer: found {found} at ")
    assert "\n" not in str(caught.value)
    assert script.name in str(caught.value)


def test_java_that_prints_no_version_is_refused(java):
    java("Unable to locate a Java Runtime", status=1)
    with pytest.raises(JavaUnavailable, match=r"\bJava 17\b"):
        require_java()


@pytest.mark.slow
def test_java_that_hangs_is_reported(java, monkeypatch):
    java("").write_text("#!/bin/sh\nexec /bin/sleep 600\n")
    monkeypatch.setattr("kinesis_assets.spark.local_settings._SECONDS", 0.1)
    with pytest.raises(JavaUnavailable, match=r"\bJava 17\b.* printed no version"):
        require_java()


def test_a_missing_java_is_reported(tmp_path, monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JavaUnavailable, match=r"\bJava 17\b.*\bPATH\b"):
        require_java()


def test_java_home_without_java_is_reported(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaUnavailable, match=rf"JAVA_HOME.*{tmp_path}.*\bbin/java\b"):
        require_java()


def test_java_home_takes_precedence_over_the_path(java, tmp_path, monkeypatch):
    java('openjdk version "11.0.27"')
    home = tmp_path / "home"
    (home / "bin").mkdir(parents=True)
    script = home / "bin" / "java"
    script.write_text("#!/bin/sh\necho 'openjdk version \"17.0.1\"' >&2\n")
    script.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(home))
    require_java()


def test_a_spark_connect_session_needs_no_local_java(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    prepare({"spark.remote": "sc://127.0.0.1:1"})


@pytest.mark.parametrize(
    ("master", "python"), [("local[2,4]", sys.executable), ("spark://127.0.0.1:1", None)]
)
@pytest.mark.usefixtures("no_python")
def test_only_local_workers_use_this_python(master, python):
    prepare({"spark.master": master})
    assert os.environ.get("PYSPARK_PYTHON") == python


@pytest.fixture
def no_python(java, monkeypatch):
    """Java is installed, and no Python of the workers is set."""
    java('openjdk version "17.0.15" 2025-04-15')
    monkeypatch.setenv("PYSPARK_PYTHON", "")  # monkeypatch restores the variable after the test
    monkeypatch.delenv("PYSPARK_PYTHON")


@pytest.mark.usefixtures("no_python")
def test_the_master_of_a_cluster_may_be_in_the_configuration_of_spark(monkeypatch, tmp_path):
    (tmp_path / "spark-defaults.conf").write_text("spark.master spark://127.0.0.1:1\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    prepare({})
    assert "PYSPARK_PYTHON" not in os.environ


@pytest.mark.usefixtures("no_python")
def test_a_configured_python_is_that_of_the_workers(monkeypatch, tmp_path):
    (tmp_path / "spark-defaults.conf").write_text("spark.pyspark.python /usr/bin/python3.12\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    prepare({})
    assert os.environ["PYSPARK_PYTHON"] == "/usr/bin/python3.12"
    prepare({"spark.pyspark.python": "./environment/bin/python"})
    assert os.environ["PYSPARK_PYTHON"] == "./environment/bin/python"


def test_a_start_that_fails_is_reported_in_one_sentence(java, tmp_path, monkeypatch):
    java('openjdk version "17.0.15" 2025-04-15')
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(LandingFailed, match=r"^Spark did not start, .*nowhere") as caught:
        start_session({"spark.master": "local[1]"})
    assert "\n" not in str(caught.value)
