"""Default settings of a local Spark session."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlparse

import pytest

from kinesis_assets.spark.local_settings import (
    JAVA_OPTIONS,
    LOOPBACK,
    PYTHON,
    QUICK_JAVA,
    TIME_ZONE,
    WORKER_DAEMON,
    archive_path,
    local_settings,
    setting,
)

ADDRESSES = ["spark.driver.host", "spark.driver.bindAddress"]


@pytest.fixture(autouse=True)
def isolated_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("SPARK_HOME", "SPARK_CONF_DIR", "MASTER", "PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("config", [{}, {"spark.master": "local[2,4]"}])
def test_local_spark_has_no_ui_a_fast_compiler_and_one_collector_thread(config):
    settings = local_settings(config)
    assert settings.items() >= {"spark.ui.enabled": "false", **config}.items()
    assert set(QUICK_JAVA.split()) <= set(settings[JAVA_OPTIONS].split())


def test_local_spark_has_a_log_configuration_without_warnings_that_every_session_has():
    (option,) = (each for each in local_settings({})[JAVA_OPTIONS].split() if "log4j2" in each)
    path = Path(unquote(urlparse(option.partition("=")[2]).path))
    assert "NativeCodeLoader" in path.read_text()


def test_a_log_configuration_of_the_site_takes_precedence(tmp_path, monkeypatch):
    (tmp_path / "log4j2.properties").touch()
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert "log4j2" not in local_settings({})[JAVA_OPTIONS]


@pytest.mark.parametrize("master", [None, "local", "local[2]", "local[*,4]"])
def test_local_spark_listens_on_loopback_and_authenticates(master):
    settings = local_settings({} if master is None else {"spark.master": master})
    assert (
        settings.items()
        >= {
            "spark.driver.host": LOOPBACK,
            "spark.driver.bindAddress": LOOPBACK,
            "spark.authenticate": "true",
        }.items()
    )


def test_a_daemon_of_the_site_takes_precedence(tmp_path, monkeypatch):
    (tmp_path / "spark-defaults.conf").write_text(f"{WORKER_DAEMON} pyspark.daemon")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert WORKER_DAEMON not in local_settings({})


@pytest.mark.parametrize("name", ["spark.driver.host", "spark.driver.bindAddress"])
def test_a_configured_driver_address_disables_both_default_addresses(name):
    settings = local_settings({name: "192.0.2.1"})
    assert {name: settings.get(name) for name in ADDRESSES} == dict.fromkeys(ADDRESSES) | {name: "192.0.2.1"}


def test_a_driver_address_in_spark_defaults_disables_both_default_addresses(tmp_path, monkeypatch):
    (tmp_path / "spark-defaults.conf").write_text("spark.driver.host 192.0.2.1\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert local_settings({}).keys().isdisjoint(ADDRESSES)


@pytest.mark.parametrize("master", ["local-cluster[2,1,1024]", "yarn", "k8s://host", "spark://host:7077"])
@pytest.mark.parametrize(
    "source",
    [
        "session",
        "defaults",
        "--master {}",
        "--master={}",
        "--conf spark.master={}",
        "--properties-file",
        "variable",
    ],
)
def test_a_cluster_gets_no_default_settings_from_any_source_of_its_master(
    master, source, tmp_path, monkeypatch
):
    config = {"spark.master": master} if source == "session" else {}
    if source == "defaults":
        (tmp_path / "spark-defaults.conf").write_text(f"spark.master {master}\n")
        monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    elif source == "--properties-file":
        (tmp_path / "site.conf").write_text(f"spark.master={master}\n")
        monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"{source} {tmp_path / 'site.conf'} pyspark-shell")
    elif source.startswith("--"):
        monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"--name x {source.format(master)} pyspark-shell")
    elif source == "variable":
        monkeypatch.setenv("MASTER", master)
    assert local_settings(config) == config


def test_a_driver_started_by_spark_submit_gets_no_default_settings(monkeypatch):
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert local_settings({}) == {}


def test_session_settings_take_precedence_over_defaults():
    config = {"spark.ui.enabled": "true", JAVA_OPTIONS: "-Xss4m"}
    assert local_settings(config).items() >= config.items()


@pytest.mark.parametrize("separator", [" ", "=", "\t", " = ", ":", ": "])
def test_spark_defaults_take_precedence_over_ours(tmp_path, monkeypatch, separator):
    (tmp_path / "spark-defaults.conf").write_text(f"# ours\n\n{JAVA_OPTIONS}{separator}-Xss4m\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert JAVA_OPTIONS not in local_settings({})
    assert local_settings({})["spark.ui.enabled"] == "false"


@pytest.mark.parametrize("separator", [" ", "=", "\t", " = ", ":", ": "])
def test_a_value_of_spark_defaults_may_contain_a_separator(tmp_path, monkeypatch, separator):
    python = "/envs/python=3.12/bin/python"
    (tmp_path / "spark-defaults.conf").write_text(f"  {PYTHON}{separator}{python}\n! {TIME_ZONE} UTC\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert setting({}, PYTHON) == python
    assert setting({}, TIME_ZONE) is None


def test_an_existing_class_data_archive_is_used():
    archive_path().parent.mkdir(parents=True)
    archive_path().touch()
    options = local_settings({})[JAVA_OPTIONS].split()
    assert options[-1] == f"-XX:SharedArchiveFile={archive_path()}"


def test_each_java_has_its_own_class_data_archive(monkeypatch, tmp_path):
    archive_of_this_java = archive_path()
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.touch(mode=0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert archive_path() != archive_of_this_java
