"""Every block of docs/derived.md, and of the pages on bad records and on changes, does what it says."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest
import yaml
from deltalake import DeltaTable

from kinesis_assets import KinesisTableComponent, build_kinesis_stream
from kinesis_assets.dagster.stream_names import StreamNames
from kinesis_assets.dagster.stream_project import StreamProject
from support.dagster_components import dagsters_own_warnings, loaded
from support.stream_names import raw_key

if TYPE_CHECKING:
    from kinesis_assets.kinesis.settings import ClientSettings

DOCS = Path(__file__).parents[2] / "docs"
PAGE = "".join((DOCS / name).read_text() for name in ("derived.md", "bad-records.md", "derived-changes.md"))
YAMLS, SHELLS, PYTHONS = (
    re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    for language in ("yaml", "sh", "python")
)
(CLICKS,) = map(yaml.safe_load, YAMLS)
INFER, REDRIVE, REBUILD = SHELLS
ASSETS, OWN, ENGINES, INVALID = PYTHONS


@pytest.fixture
def put(kinesis: Any, settings: ClientSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Puts clicks into the stream of the page, which is read in an empty working directory."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_KINESIS", str(settings.endpoint_url))
    monkeypatch.chdir(tmp_path)
    kinesis.create_stream(StreamName="clicks", ShardCount=1)

    def put(click_id: str, page: str, at: str) -> None:
        data = json.dumps({"click_id": click_id, "page": page, "at": at}).encode()
        kinesis.put_record(StreamName="clicks", PartitionKey=click_id, Data=data)

    yield put
    kinesis.delete_stream(StreamName="clicks")


def rows(table: str, *columns: str) -> list[tuple[Any, ...]]:
    return sorted(
        tuple(map(str, row.values()))
        for row in DeltaTable(table).to_pyarrow_table().select(list(columns)).to_pylist()
    )


@pytest.mark.usefixtures("spark")
def test_the_assets_of_the_page_follow_the_stream(
    put: Any, cli: Any, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: dict[str, Any] = {}
    exec(ASSETS, names)  # noqa: S102  # the page's own lines
    defs = names["defs"]
    job = defs.resolve_implicit_global_asset_job_def()
    for click in (("a", "/home", "2026-01-31T10:00:00Z"), ("a", "/cart", "2026-02-01T10:00:00Z")):
        put(*click)
        assert cli("run", "--stream", "clicks", "--table", "./clicks").exit_code == 0
        job.execute_in_process(
            instance=instance, asset_selection=[names["page_views"].key, names["views_by_day"].key]
        )
    assert rows("./derived/page_views", "click_id", "page") == [("a", "/cart")]
    assert rows("./derived/views_by_day", "day", "views") == [("2026-02-01", "1")]
    exec(INVALID, names)  # noqa: S102  # the page's own lines
    put("b", "/home", "0000-00-00")
    assert cli("run", "--stream", "clicks", "--table", "./clicks").exit_code == 0
    stream = build_kinesis_stream("clicks", table="./clicks")
    visits = dg.Definitions.merge(stream, dg.Definitions(assets=[names["visits"]]))
    visits_job = visits.resolve_implicit_global_asset_job_def()
    visits_job.execute_in_process(instance=instance, asset_selection=[names["visits"].key])
    found = rows("./derived/visits", "click_id", "error")
    assert found == [("a", "None"), ("a", "None"), ("b", "invalid time")]
    exec(OWN, names)  # noqa: S102  # the page's own lines
    own = dg.materialize([names["pages"]], instance=instance, resources=names["defs"].resources)
    (event,) = own.asset_materializations_for_node("pages")
    assert {"cursor", "source_version", "source_rows"} <= event.metadata.keys()
    assert event.metadata["source_rows"].value == 1
    assert rows("./pages", "page", "count") == [("/cart", "1")]
    exec(ENGINES, names)  # noqa: S102  # the page's own lines
    assert (names["rows"].files, names["rows"].more) == ([], False)
    monkeypatch.setattr(StreamProject, "of_folder", lambda *_: StreamProject("clicks", defs))
    plan, apply = (shlex.split(line)[1:] for line in REBUILD.splitlines())
    assert cli(*plan, "--json").lines[0].items() >= {"rows_deleted": 1, "lost_rows": 0}.items()
    assert rows("./derived/page_views", "click_id", "page") == [("a", "/cart")]
    assert cli(*apply).exit_code == 0
    assert rows("./derived/page_views", "click_id", "page") == []
    job.execute_in_process(instance=instance, asset_selection=[names["page_views"].key])
    assert rows("./derived/page_views", "click_id", "page") == [("None", "None"), ("a", "/cart")]
    for line in REDRIVE.splitlines():
        assert cli(*shlex.split(line)[1:]).exit_code == 0
    assert rows("./derived/page_views", "click_id", "page") == [("None", "None"), ("a", "/cart")]


@dagsters_own_warnings
@pytest.mark.usefixtures("spark")
def test_the_yaml_of_the_page_is_the_same_table(put: Any, cli: Any, instance: dg.DagsterInstance) -> None:
    assert CLICKS["type"] == "kinesis_assets.KinesisTableComponent"
    _, table = loaded(KinesisTableComponent, **CLICKS["attributes"])
    stream = build_kinesis_stream("clicks", table="./clicks")
    job = dg.Definitions.merge(stream, table).resolve_implicit_global_asset_job_def()
    put("a", "/home", "2026-01-31T10:00:00Z")
    assert cli("run", "--stream", "clicks", "--table", "./clicks").exit_code == 0
    keys = [dg.AssetKey("page_views"), dg.AssetKey("page_views_errors")]
    job.execute_in_process(instance=instance, asset_selection=keys)
    assert rows("./derived/page_views", "click_id", "day") == [("a", "2026-01-31")]
    assert rows("./derived/page_views_errors", "data") == []
    proposed = cli(*shlex.split(INFER)[1:])
    assert proposed.exit_code == 0
    assert "click_id STRING" in proposed.out


def test_the_assets_and_the_sensor_of_the_page_are_defined() -> None:
    names: dict[str, Any] = {}
    exec(ASSETS, names)  # noqa: S102  # the page's own lines
    assert raw_key("clicks") in names["page_views"].dependency_keys
    assert f"`{StreamNames('clicks').automation}`" in PAGE
