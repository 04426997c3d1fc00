"""docs/tutorial.md ends with the SQL that it shows, whatever the format of the raw table is.

tests/packaging executes its commands.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest
import yaml

from kinesis_assets import KinesisStreamComponent, KinesisTableComponent
from kinesis_assets.dagster.stream_project import StreamProject
from support.dagster_components import dagsters_own_warnings, loaded
from support.dagster_runs import execute
from support.formats import FORMATS
from support.readers import query
from support.shard_ids import A, B

if TYPE_CHECKING:
    from kinesis_assets.kinesis.settings import ClientSettings

PAGE = (Path(__file__).parents[2] / "docs" / "tutorial.md").read_text()
BLOCKS = re.findall(r'^```(\w*)(?: title="([^"\n]+)")?\n(.*?)^```$', PAGE, re.MULTILINE | re.DOTALL)
PUT_ORDERS, LATEST_ORDERS, REVENUE_BY_DAY, _ = [text for _, path, text in BLOCKS if path]
STREAMS = [text for kind, path, text in BLOCKS if kind == "yaml" and not path]
((_, _, SQL),) = [block for block in BLOCKS if block[0] == "sql"]


def attributes(text: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(text)["attributes"]
    return found


@pytest.fixture
def orders(settings: ClientSettings, kinesis: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The stream of the page with its orders. The SDK's environment leads to it."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_KINESIS", str(settings.endpoint_url))
    monkeypatch.chdir(tmp_path)
    exec(PUT_ORDERS, {})  # noqa: S102  # the page's own lines
    yield
    kinesis.delete_stream(StreamName="orders")


@dagsters_own_warnings
@pytest.mark.usefixtures("spark", "orders")
@pytest.mark.parametrize(("format_", "stream"), [*zip(FORMATS, STREAMS, strict=True)], ids=FORMATS)
def test_the_last_sql_returns_the_rows_of_the_page(
    instance: dg.DagsterInstance, tmp_path: Path, format_: str, stream: str
) -> None:
    _, raw = loaded(KinesisStreamComponent, **attributes(stream))
    _, typed = loaded(KinesisTableComponent, **attributes(LATEST_ORDERS))
    program: dict[str, Any] = {}
    exec(REVENUE_BY_DAY, program)  # noqa: S102  # the page's own lines
    tables = dg.Definitions.merge(raw, typed, dg.Definitions(assets=[program["revenue_by_day"]]))
    assert execute(StreamProject("orders", tables), instance, A, B).success
    job = tables.resolve_implicit_global_asset_job_def()
    keys = [dg.AssetKey("latest_orders"), dg.AssetKey("revenue_by_day")]
    job.execute_in_process(instance=instance, asset_selection=keys)

    place = "lake/orders_raw"
    if format_ == "iceberg":
        place = str(max(tmp_path.glob(f"{place}/metadata/*.metadata.json")))
    found = query(
        SQL,
        orders_raw=f"{format_}_scan('{place}')",
        revenue_by_day="delta_scan('lake/revenue_by_day')",
    )
    shown = "".join(f"{' '.join(map(str, row))}\n" for row in found)
    assert shown == [text for kind, _, text in BLOCKS if not kind][-1]
