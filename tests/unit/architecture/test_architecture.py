"""The layout of the package: folders import downwards only, without cycles, and modules stay small."""

from __future__ import annotations

import re

import pytest

from support.import_graph import EVERYWHERE, ROOT, cycle, folder, imports, may_import, modules, picture

MOST_LINES = 350

DOCUMENT = ROOT.parent / "docs" / "architecture.md"


def test_modules_have_no_import_cycle():
    assert cycle() is None


@pytest.mark.parametrize("module", sorted(name for name in modules() if "." in name))
def test_a_folder_imports_only_from_folders_below_it(module):
    here = folder(module)
    others = {other for other in imports()[module] if folder(other) != here}
    assert {other for other in others if not may_import(here, folder(other))} == set()


@pytest.mark.parametrize("module", sorted(modules()))
def test_no_module_is_longer_than_350_lines(module):
    assert len(modules()[module].read_text().splitlines()) <= MOST_LINES


def test_the_package_root_has_only_the_public_names_the_errors_and_the_definitions():
    files = {path.name for path in ROOT.iterdir() if path.is_file()}
    assert files <= {"__init__.py", "errors.py", "definitions.py", "redaction.py", "retry.py", "py.typed"}


@pytest.mark.parametrize("module", sorted(EVERYWHERE & modules().keys()))
def test_modules_that_every_folder_may_import_import_only_each_other(module):
    assert imports()[module] <= EVERYWHERE


def test_the_documented_flowchart_shows_the_actual_imports():
    assert f"```mermaid\n{picture()}\n```" in DOCUMENT.read_text()


def test_the_documented_modules_and_folders_exist():
    paths = re.findall(r"`([\w/]+(?:/|\.py))`", DOCUMENT.read_text())
    assert len(paths) > 50
    assert [path for path in paths if not _exists(path)] == []


def _exists(path: str) -> bool:
    return (ROOT / path).is_dir() if path.endswith("/") else (ROOT / path).is_file()
