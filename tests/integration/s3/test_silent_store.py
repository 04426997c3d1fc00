"""A store that accepts connections and answers nothing: a tick of the sensor ends before Dagster ends it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster as dg
import pytest

from kinesis_assets.errors import TickTooLong
from support.daemon import Daemon
from support.scripted_server import After, Response, ScriptedServer

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def silent_store(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedServer]:
    """An S3 endpoint that reads requests, and answers nothing."""
    with ScriptedServer(Response(b"", After.HOLD)) as server:
        environment = {
            "AWS_ENDPOINT_URL_S3": server.url,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
        }
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        yield server


def test_a_tick_gives_up_and_turns_the_checks_red(silent_store, source, make_project, instance, monkeypatch):
    source.create(1)
    monkeypatch.setenv("DAGSTER_SENSOR_GRPC_TIMEOUT_SECONDS", "20")
    daemon = Daemon(make_project(table="s3://lake/orders"), instance)
    with pytest.raises(TickTooLong):
        daemon.tick()
    assert silent_store.requests
    check = dg.AssetCheckKey(daemon.project.names.raw_key, "time_to_loss")
    assert not instance.get_latest_asset_check_evaluation_record(check).evaluation.passed
