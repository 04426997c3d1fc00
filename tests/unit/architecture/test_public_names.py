"""The public names of the package."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

import kinesis_assets

PACKAGE = Path(kinesis_assets.__file__).parent


def errors() -> set[str]:
    """Return the whole tree of errors, which is public."""
    module = importlib.import_module("kinesis_assets.errors")
    return {name for name, value in vars(module).items() if isinstance(value, type)}


def test_every_public_name_is_loaded_on_first_use():
    assert set(kinesis_assets.__all__) == {*kinesis_assets._HOMES, *errors()}
    assert kinesis_assets.__all__ == sorted(kinesis_assets.__all__)
    assert dir(kinesis_assets) == kinesis_assets.__all__
    for name in kinesis_assets.__all__:
        assert getattr(kinesis_assets, name).__name__ == name


def test_type_checkers_see_every_public_name():
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    imports = [
        (alias.name, node.module)
        for guarded in ast.walk(tree)
        if isinstance(guarded, ast.If) and ast.unparse(guarded.test) == "TYPE_CHECKING"
        for node in guarded.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    ]
    homes = {name: f"kinesis_assets.{home}" for name, home in kinesis_assets._HOMES.items()}
    assert sorted(imports) == sorted([*homes.items(), ("*", "kinesis_assets.errors")])


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'kinesis_assets' has no attribute 'nothing'"):
        _ = kinesis_assets.nothing
