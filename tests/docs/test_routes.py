"""The YAML of docs/routes.md does what the page says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest
import yaml
from deltalake import DeltaTable

from kinesis_assets import KinesisRoutesComponent, build_kinesis_stream
from support.dagster_components import dagsters_own_warnings, loaded
from support.dagster_runs import plain

if TYPE_CHECKING:
    from kinesis_assets.kinesis.settings import ClientSettings

PAGE = (Path(__file__).parents[2] / "docs" / "routes.md").read_text()
(ROUTES,) = map(yaml.safe_load, re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
TIMES = [f"2026-01-31T10:00:0{second}Z" for second in range(4)]
EVENTS = [
    {"detail-type": "Order Placed", "time": TIMES[0], "detail": {"orderId": 1, "total": 9.5}},
    {"detail-type": "User Created", "time": TIMES[1], "detail": {"userId": "u", "name": "Ada"}},
    {"detail-type": "Order Placed", "time": TIMES[2], "detail": {"orderId": 1, "total": 7}},
    {"detail-type": "User Renamed", "time": TIMES[3], "detail": {"userId": "u", "name": 5}},
    {"detail-type": "Cart Emptied", "detail": {"orderId": "none"}},
]


def rows(table: str, *columns: str) -> list[tuple[str, ...]]:
    found = DeltaTable(f"./lake/{table}").to_pyarrow_table().select(list(columns)).to_pylist()
    return sorted(tuple(map(str, row.values())) for row in found)


@dagsters_own_warnings
@pytest.mark.usefixtures("spark")
def test_each_kind_of_document_becomes_rows_of_its_table(
    kinesis: Any,
    cli: Any,
    settings: ClientSettings,
    instance: dg.DagsterInstance,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert ROUTES["type"] == "kinesis_assets.KinesisRoutesComponent"
    monkeypatch.setenv("AWS_ENDPOINT_URL_KINESIS", str(settings.endpoint_url))
    monkeypatch.chdir(tmp_path)
    kinesis.create_stream(StreamName="shop", ShardCount=1)
    for event in (*(json.dumps(each) for each in EVENTS), "no JSON"):
        kinesis.put_record(StreamName="shop", PartitionKey="k", Data=event.encode())
    assert cli("run", "--stream", "shop", "--table", "./raw").exit_code == 0
    kinesis.delete_stream(StreamName="shop")

    _, routes = loaded(KinesisRoutesComponent, **ROUTES["attributes"])
    defs = dg.Definitions.merge(build_kinesis_stream("shop", table="./raw"), routes)
    keys = [dg.AssetKey(name) for name in ("shop_events", "orders", "users", "users_errors")]
    job = defs.resolve_implicit_global_asset_job_def()
    result = job.execute_in_process(instance=instance, asset_selection=keys)

    assert rows("orders", "orderId", "total", "time") == [("1", "7.00", "2026-01-31 10:00:02+00:00")]
    assert rows("users", "userId", "name") == [("u", "Ada")]
    ((data,),) = rows("users_errors", "data")
    assert "User Renamed" in data
    unmatched = [row for row in rows("shop_events", "route", "data", "error") if row[0] == "None"]
    assert [("no JSON" in data, error != "None") for _, data, error in unmatched] == [
        (True, True),
        (False, False),
    ]
    (event,) = result.asset_materializations_for_node("shop_events")
    assert plain(event.metadata)["unmatched records"] == 2
    check = dg.AssetCheckKey(keys[0], "unmatched_records")
    (record,) = instance.event_log_storage.get_latest_asset_check_execution_by_key([check]).values()
    assert not record.evaluation.passed
