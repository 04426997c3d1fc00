"""Every block of the documentation that defines something for Dagster loads as Dagster loads your code."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from dagster._core.definitions.definitions_load_context import DefinitionsLoadContext
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
from dagster._grpc.server import LoadedRepositories

from support.dagster_components import dagsters_own_warnings
from support.dg_project import DgProject

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import dagster as dg

pytestmark = dagsters_own_warnings

PROJECT = Path(__file__).parents[2]
PAGES = [PROJECT / "README.md", *sorted((PROJECT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
YAML_BLOCK = re.compile(r"^```yaml.*?\n(type: .*?)^```", re.MULTILINE | re.DOTALL)
DEFINES = re.compile(
    r"^(?:@(?:dg\.|derived_table|rollup)|.*\bDefinitions\(|class \w+\(\w+Component\))", re.MULTILINE
)
MODULES = {
    f"{page.stem.replace('-', '_')}_{number}": block
    for page in PAGES
    for number, block in enumerate(BLOCK.findall(page.read_text()))
    if DEFINES.search(block)
}
LOCATIONS = {name: block for name, block in MODULES.items() if "Definitions" in block}
FILES = re.compile(r'^```\w+ title="src/shop/defs/([^"]+)"\n(.*?)^```', re.MULTILINE | re.DOTALL)
STREAM = "type: kinesis_assets.KinesisStreamComponent\nattributes: {{stream: {0}, table: ./{0}_raw}}\n"


@pytest.fixture(autouse=True)
def of_this_process(library_schemas: None) -> Iterator[None]:
    """Restore what Dagster sets for the whole process when it loads a code location."""
    del library_schemas
    modules, context = {*sys.modules}, DefinitionsLoadContext.get()
    yield
    DefinitionsLoadContext.set(context)
    for name in {*sys.modules} - modules:
        if name.partition(".")[0] in {"lake", *MODULES}:
            del sys.modules[name]


def loaded(**origin: str) -> dg.RepositoryDefinition:
    """Return the definitions as the server of a code location loads them."""
    found = LoadedRepositories(LoadableTargetOrigin(**origin), None, [], None)
    (repository,) = found.definitions_by_name.values()
    return repository


@pytest.mark.parametrize("name", LOCATIONS)
def test_a_block_with_definitions_loads_by_file_and_by_module(tmp_path: Path, name: str) -> None:
    file = tmp_path / f"{name}.py"
    file.write_text(LOCATIONS[name])
    by_file = loaded(python_file=str(file)).assets_defs_by_key
    by_module = loaded(module_name=name, working_directory=str(tmp_path)).assets_defs_by_key
    assert by_file.keys() == by_module.keys() != set()


@pytest.mark.parametrize("name", MODULES)
def test_a_block_loads_in_the_defs_folder_of_a_project(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    stream = {} if "build_kinesis_stream" in MODULES[name] else {"stream/defs.yaml": STREAM.format("clicks")}
    found = in_defs_folder(tmp_path, {f"{name}.py": MODULES[name], **stream})
    assert f"lake.defs.{name}" in sys.modules
    nodes = [key.path[-1] for key in found.assets_defs_by_key]
    assert sorted(nodes) == sorted({*nodes})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_no_typed_table_of_the_page_has_the_name_of_its_stream(page: Path) -> None:
    documents = [yaml.safe_load(block) for block in YAML_BLOCK.findall(page.read_text())]
    tables = [each["attributes"] for each in documents if "KinesisTableComponent" in str(each.get("type"))]
    assert [table["name"] for table in tables if table["name"] == table["source"]] == []


def test_the_files_of_the_tutorial_load_in_the_defs_folder_of_a_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    files = dict(FILES.findall((PROJECT / "docs" / "tutorial.md").read_text()))
    found = in_defs_folder(tmp_path, {"stream/defs.yaml": STREAM.format("orders"), **files})
    names = [key.to_user_string() for key in found.assets_defs_by_key]
    assert sorted(names) == ["kinesis/orders", "kinesis/orders_raw", "latest_orders", "revenue_by_day"]


def in_defs_folder(root: Path, files: Mapping[str, str]) -> dg.RepositoryDefinition:
    """Load a project with some files in its `defs` folder."""
    project = DgProject.create(root, {})
    for path, text in files.items():
        (project.defs / path).parent.mkdir(exist_ok=True)
        (project.defs / path).write_text(text)
    return loaded(module_name="lake.definitions", working_directory=str(root))
