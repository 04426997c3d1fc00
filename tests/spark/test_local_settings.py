"""What a Spark that is started here is told."""

from __future__ import annotations

import pytest

from kinesis_assets.spark.archive import archive_path
from kinesis_assets.spark.local import JAVA_OPTIONS, local_settings


@pytest.fixture(autouse=True)
def nothing_of_this_machine(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("SPARK_HOME", "SPARK_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("config", [{}, {"spark.master": "local[2,4]"}])
def test_a_spark_of_this_machine_gets_no_ui_and_a_quick_compiler(config):
    assert (
        local_settings(config).items()
        >= {
            "spark.ui.enabled": "false",
            JAVA_OPTIONS: "-XX:TieredStopAtLevel=1",
            **config,
        }.items()
    )


def test_the_settings_of_the_session_go_before_ours():
    config = {"spark.ui.enabled": "true", JAVA_OPTIONS: "-Xss4m"}
    assert local_settings(config).items() >= config.items()


def test_a_cluster_is_told_nothing_of_ours():
    config = {"spark.master": "spark://host:7077"}
    assert local_settings(config) == config


@pytest.mark.parametrize("between", [" ", "=", "\t"])
def test_what_spark_defaults_say_is_left_to_them(tmp_path, monkeypatch, between):
    (tmp_path / "spark-defaults.conf").write_text(f"# ours\n\n{JAVA_OPTIONS}{between}-Xss4m\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert JAVA_OPTIONS not in local_settings({})
    assert local_settings({})["spark.ui.enabled"] == "false"


def test_an_archive_is_used_as_soon_as_there_is_one():
    archive_path().parent.mkdir(parents=True)
    archive_path().touch()
    assert local_settings({})[JAVA_OPTIONS] == (
        f"-XX:TieredStopAtLevel=1 -XX:SharedArchiveFile={archive_path()}"
    )


def test_an_archive_belongs_to_one_java(monkeypatch, tmp_path):
    of_this = archive_path()
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.touch(mode=0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert archive_path() != of_this
