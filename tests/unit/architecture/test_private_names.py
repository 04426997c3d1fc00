"""The private names of another library are used in one module for each library."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from support.import_graph import nodes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

INTERNALS = {
    "kinesis.transport.sdk_internals": {"botocore", "urllib3"},
    "dagster.dagster_internals": {"dagster"},
    "spark.pyspark_internals": {"pyspark", "py4j", "grpc"},
}
"""The modules with private names, and the libraries whose names they may use."""

PUBLIC = {
    *("boto3", "botocore", "botocore.config", "botocore.credentials", "botocore.exceptions"),
    *("botocore.eventstream", "botocore.loaders", "botocore.session"),
    *("urllib3", "urllib3.exceptions", "urllib3.util"),
    *("dagster", "dagster.components", "dagster_pyspark"),
    "grpc",
    *("pyspark", "pyspark.errors", "pyspark.sql", "pyspark.sql.datasource", "pyspark.sql.types"),
}
"""The public modules of these libraries that the package imports."""

NOT_PRIVATE = {"_exit", "_replace"}
"""Names of the standard library that start with an underscore, but are documented."""


def imports_of(within: Iterable[ast.AST]) -> Iterator[str]:
    """The modules that a module imports; and the names that are private, or may be modules of a package."""
    for node in within:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            source, names = node.module or "", [alias.name for alias in node.names]
            yield source
            yield from (
                f"{source}.{name}"
                for name in names
                if name.startswith("_") or (name.islower() and "." not in source)
            )


def test_no_other_module_imports_private_modules_of_these_libraries():
    libraries = {name.partition(".")[0] for name in PUBLIC}.union(*INTERNALS.values())
    found = [
        (module, name)
        for module, within in nodes().items()
        for name in imports_of(within)
        if (library := name.partition(".")[0]) in libraries and library not in INTERNALS.get(module, set())
    ]
    assert len(found) > 30
    assert {(module, name) for module, name in found if name not in PUBLIC} == set()


def test_no_other_module_uses_private_attributes_of_another_library():
    own = {name for within in nodes().values() for node in within if (name := _defined(node)) is not None}
    used = {
        (module, node.attr)
        for module, within in nodes().items()
        if module not in INTERNALS
        for node in within
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__")
    }
    assert len(used) > 30
    assert {(module, name) for module, name in used if name not in own | NOT_PRIVATE} == set()


def _defined(node: ast.AST) -> str | None:
    """A name that the package defines as an attribute of a class, a module or `self`."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return node.name
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        return node.attr if isinstance(node.value, ast.Name) and node.value.id == "self" else None
    return node.id if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) else None
