"""The layout of the package: folders import downwards only, without cycles, and modules stay small."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import deltalake.exceptions
import pytest

from support.import_graph import (
    EVERYWHERE,
    INNER_LAYERS,
    ROOT,
    UPWARDS,
    cycle,
    folder,
    imports,
    imports_upwards,
    may_import,
    modules,
    nodes,
    picture,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MOST_LINES = 600

FEW_LINES = 60

ALONE = {
    "dagster.components.stream_component": "the component of a stream, apart from the base of all components",
    "dagster.spark_resource": "the only module of the definitions that loads dagster_pyspark",
    "definitions": "what Dagster loads",
    "schemas.files": "loaded only for schemas that are in files",
    "spark.connect_token": "loads gRPC",
    "spark.probe_task": "runs where every other module may be missing",
    "table.iceberg.rest_catalog": "loads a client of HTTP, which other catalogs do not",
}
"""Why a small module with one importer is not a part of it."""

LIBRARIES = ("deltalake", "pyiceberg")

DELTA_NAMES = {"DeltaTable", *(name for name in vars(deltalake.exceptions) if not name.startswith("_"))}
"""The class of a table that delta-rs has opened, and its errors."""

DOCUMENT = ROOT.parent / "docs" / "architecture.md"


UNIT = ROOT.parent / "tests" / "unit"

NO_MIRROR = {
    "architecture": "the package as a whole",
    "security": "what comes from outside, in whichever module it is refused",
}
"""Why a folder of unit tests has not the name of a module or folder of the package."""


def test_modules_have_no_import_cycle():
    assert cycle() is None


def test_a_folder_imports_only_from_folders_below_it():
    across = [
        (module, other)
        for module, others in imports().items()
        for other in others
        if "." in module and folder(module) != folder(other)
    ]
    assert len(across) > 100
    assert [pair for pair in across if not may_import(*map(folder, pair))] == []


def test_a_folder_within_a_folder_imports_only_from_those_below_it():
    assert imports_upwards() == UPWARDS


@pytest.mark.parametrize("top", INNER_LAYERS)
def test_each_folder_within_a_folder_has_its_place(top):
    folders = {path.name for path in (ROOT / top).iterdir() if (path / "__init__.py").is_file()}
    assert folders == {name for names in INNER_LAYERS[top] for name in names}


def test_only_the_folder_table_knows_the_table_format():
    used = {module: sorted(of_delta(within)) for module, within in nodes().items()}
    inside = {module for module, names in used.items() if folder(module) == "table" and names}
    assert {"table.delta.opening", "table.delta.version"} <= inside
    assert {module: names for module, names in used.items() if names and module not in inside} == {}


def of_delta(within: Iterable[ast.AST]) -> Iterator[str]:
    """Return what a module uses of delta-rs and pyiceberg: imports, also for types, errors, and tables."""
    for node in within:
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names if alias.name.partition(".")[0] in LIBRARIES)
            case ast.ImportFrom(module=str(name)) if name.partition(".")[0] in LIBRARIES:
                yield name
            case ast.Attribute(attr="delta" | "iceberg"):
                yield ast.unparse(node)
            case ast.Name(id=name) if name in DELTA_NAMES:
                yield name


def test_no_module_is_longer_than_600_lines():
    lengths = {module: len(path.read_text().splitlines()) for module, path in modules().items()}
    assert len(lengths) > 100
    assert {module: length for module, length in lengths.items() if length > MOST_LINES} == {}


def test_a_small_module_with_one_importer_says_why_it_stands_alone():
    importers = Counter(other for others in imports().values() for other in others)
    small = {
        module
        for module, path in modules().items()
        if path.name != "__init__.py" and folder(module) != "defs"
        if len(path.read_text().splitlines()) < FEW_LINES and importers[module] <= 1
    }
    assert small == ALONE.keys()


def test_the_package_root_has_only_the_public_names_the_definitions_and_what_many_folders_share():
    files = {path.name for path in ROOT.iterdir() if path.is_file()}
    assert files == {"__init__.py", "definitions.py", "errors.py", "metrics.py", "retry.py", "py.typed"}


@pytest.mark.parametrize("module", sorted(name for name in modules() if folder(name) in EVERYWHERE))
def test_modules_that_every_folder_may_import_import_only_each_other(module):
    assert {folder(other) for other in imports()[module]} <= EVERYWHERE


def test_the_documented_flowchart_shows_the_actual_imports():
    assert f"```mermaid\n{picture()}\n```" in DOCUMENT.read_text()


def test_the_documented_modules_and_folders_exist():
    paths = re.findall(r"`([\w/]+(?:/|\.py))`", DOCUMENT.read_text())
    assert len(paths) > 40
    assert [path for path in paths if not _exists(path)] == []


def test_what_a_docstring_or_a_comment_refers_to_exists():
    names: set[str] = set()
    references: dict[str, str] = {}
    for module, path in modules().items():
        names.update(module.split("."))
        names.update(filter(None, map(name_of, nodes()[module])))
        for reference in re.findall(r"\bsee\s+`([\w.]+)`", path.read_text()):
            references.update(dict.fromkeys(reference.split("."), module))
    assert {name: module for name, module in references.items() if name not in names} == {}


def name_of(node: ast.AST) -> str | None:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.arg(arg=name) | ast.keyword(arg=name) | ast.alias(name=name):
            return name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return name
    return None


def test_unit_tests_are_where_their_modules_are():
    folders = {test.parent.relative_to(UNIT) for test in UNIT.rglob("test_*.py")} - {Path()}
    others = {each for each in folders if not (ROOT / each).is_dir() and not (ROOT / f"{each}.py").is_file()}
    assert {*map(str, others)} == NO_MIRROR.keys()


def _exists(path: str) -> bool:
    return (ROOT / path).is_dir() if path.endswith("/") else (ROOT / path).is_file()
