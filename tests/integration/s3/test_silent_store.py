"""A store that accepts connections and answers nothing: a tick of the sensor ends before Dagster ends it."""

from __future__ import annotations

import time
from functools import partial
from operator import add
from typing import TYPE_CHECKING

import dagster as dg
import pytest

from kinesis_assets.errors import TickTooLong
from support.checked_tables import checked_table
from support.daemon import Daemon
from support.plain_derived import PlainDerived
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


def test_a_derived_table_whose_store_is_silent_leaves_the_stream_and_the_others_their_time(
    silent_store, source, make_project, instance, monkeypatch, tmp_path
):
    source.create(1)
    monkeypatch.setenv("DAGSTER_SENSOR_GRPC_TIMEOUT_SECONDS", "20")
    daemon = Daemon(make_project(), instance)
    consumed = PlainDerived(tmp_path / "consumed")
    consumed.append((1, 0, "a"))
    orders = PlainDerived(tmp_path / "orders", source=consumed.id)
    orders.consume_all(consumed)
    uris = {"silent": "s3://lake/silent", "orders": orders.table.uri}
    daemon.checked = [checked_table(name, uri, consumed.table.uri) for name, uri in uris.items()]
    now = time.time()
    lags = []
    for later in (0, 1000):
        daemon.clock = partial(add, now, later)
        daemon.tick()
        lags.append([passed_of(instance, dg.AssetCheckKey(dg.AssetKey(name), "lag")) for name in uris])
    assert silent_store.requests
    assert lags == [[None, True], [False, True]]


def passed_of(instance: dg.DagsterInstance, check: dg.AssetCheckKey) -> bool | None:
    """Return whether a check passed; None if no result was reported."""
    record = instance.get_latest_asset_check_evaluation_record(check)
    return None if record is None else record.evaluation.passed
