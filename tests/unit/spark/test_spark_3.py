"""What is refused, and what is set, before Spark 4. `make spark35` runs the contract on a real release."""

from __future__ import annotations

import sys
from importlib import import_module
from types import SimpleNamespace

import pytest
from pyspark.errors import ParseException

from kinesis_assets.decoders import spark_types
from kinesis_assets.errors import InvalidInput
from kinesis_assets.spark import pyspark_internals
from kinesis_assets.spark.pyspark_internals import enable_ansi, is_remote, require_spark_4
from kinesis_assets.spark.server import SparkServer
from kinesis_assets.spark.session import prepare, start_session

ANSI = "spark.sql.ansi.enabled"


@pytest.fixture(params=["3.5.6", "3.5.9.dev0"])
def spark_3_5(request, monkeypatch):
    monkeypatch.setattr(pyspark_internals, "pyspark_version", lambda: request.param)
    return request.param


def session(**settings: str) -> SimpleNamespace:
    """A session with the settings with which it was started."""
    conf: dict[str, str] = {}
    context = SimpleNamespace(getConf=lambda: SimpleNamespace(contains=settings.__contains__))
    return SimpleNamespace(sparkContext=context, conf=SimpleNamespace(set=conf.__setitem__), changed=conf)


@pytest.mark.parametrize("version", ["4.0.0", "4.3.0.dev1", "10.0.0"])
def test_a_later_release_has_every_feature(monkeypatch, version):
    monkeypatch.setattr(pyspark_internals, "pyspark_version", lambda: version)
    require_spark_4("a feature")


def test_the_error_names_the_feature_and_the_release_that_is_installed(spark_3_5):
    with pytest.raises(InvalidInput, match=rf"^a feature .*\bSpark 4\b.*\bPySpark {spark_3_5}\b"):
        require_spark_4("a feature")


@pytest.mark.usefixtures("spark_3_5")
@pytest.mark.parametrize("start", [prepare, start_session])
@pytest.mark.parametrize("url", ["sc://localhost:1", "local"])
def test_spark_connect_is_refused_before_a_connection_is_opened(monkeypatch, start, url):
    with pytest.raises(InvalidInput, match=r"^Spark Connect .* needs Spark 4"):
        start({"spark.remote": url})
    monkeypatch.setenv("SPARK_REMOTE", url)
    with pytest.raises(InvalidInput, match=r"^Spark Connect .* needs Spark 4"):
        start({})


@pytest.mark.usefixtures("spark_3_5")
def test_a_server_is_refused_before_anything_is_started(tmp_path):
    log = tmp_path / "logs" / "log"
    with pytest.raises(InvalidInput, match=r"\bSpark Connect server\b.*\bSpark 4\b"):
        SparkServer(log).start()
    assert not log.parent.exists()


@pytest.mark.usefixtures("spark_3_5")
def test_the_data_source_is_refused_where_it_is_imported(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark.sql.datasource", None)
    monkeypatch.delitem(sys.modules, "kinesis_assets.spark.data_source", raising=False)
    with pytest.raises(InvalidInput, match=r"\bkinesis\b.*\bSpark 4\b"):
        import_module("kinesis_assets.spark.data_source")


@pytest.mark.usefixtures("spark_3_5")
def test_the_type_variant_is_refused(monkeypatch):
    def refuse(text: str) -> None:
        raise ParseException(text)

    monkeypatch.setattr(spark_types, "parse_ddl", refuse)
    with pytest.raises(InvalidInput, match=r"\bvariant\b.*\bSpark 4\b"):
        spark_types.parse_type("id LONG, payload MAP<STRING, VARIANT>")


@pytest.mark.usefixtures("spark_3_5")
def test_no_session_is_remote(monkeypatch):
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    assert not is_remote()


@pytest.mark.usefixtures("spark_3_5")
def test_the_ansi_mode_is_enabled():
    spark = session()
    enable_ansi(spark, {"spark.master": "local[2]"})
    assert spark.changed == {ANSI: "true"}


@pytest.mark.usefixtures("spark_3_5")
def test_a_setting_of_the_ansi_mode_is_kept():
    started, configured = session(**{ANSI: "false"}), session()
    enable_ansi(started, {})
    enable_ansi(configured, {ANSI: "false"})
    assert started.changed == configured.changed == {}


def test_spark_4_keeps_its_ansi_mode(monkeypatch):
    monkeypatch.setattr(pyspark_internals, "pyspark_version", lambda: "4.0.0")
    spark = session()
    enable_ansi(spark, {})
    assert spark.changed == {}
