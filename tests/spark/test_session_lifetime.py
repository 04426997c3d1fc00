"""How long a run's session lives; on a real server in test_server.py."""

from __future__ import annotations

import pytest

from kinesis_assets.materialize import StreamProject
from kinesis_assets.spark import resource
from kinesis_assets.spark.remote import remote_of


def test_a_session_ends_with_the_manager_that_looked_at_it(monkeypatch, tmp_path):
    started, ended = [], []

    def start(config):
        started.append(config)
        return object()

    monkeypatch.setattr(resource, "start_session", start)
    monkeypatch.setattr(resource, "end_session", ended.append)
    config = {"spark.master": "local[1]"}
    project = StreamProject.unnamed("clicks", table=str(tmp_path / "clicks"), spark_config=config)
    with project.manager() as manager:
        assert started == []
        session = manager.pyspark.spark_session
        assert manager.pyspark.spark_session is session
        assert (started, ended) == ([config], [])
    assert ended == [session]


def test_a_manager_that_never_looked_at_it_ends_none(monkeypatch, tmp_path):
    ended = []
    monkeypatch.setattr(resource, "end_session", ended.append)
    with StreamProject.unnamed("clicks", table=str(tmp_path / "clicks")).manager():
        pass
    assert ended == []


@pytest.mark.parametrize(
    ("config", "variable", "url"),
    [
        ({}, None, None),
        ({"spark.master": "local[1]"}, "sc://a", "sc://a"),
        ({"spark.remote": "sc://b"}, "sc://a", "sc://b"),
        ({}, "", None),
    ],
)
def test_a_server_is_named_by_the_settings_or_else_by_the_variable(monkeypatch, config, variable, url):
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    if variable is not None:
        monkeypatch.setenv("SPARK_REMOTE", variable)
    assert remote_of(config) == url
