"""The imports between the package's folders, read from the source.

Imports inside functions and under TYPE_CHECKING are included.
"""

from __future__ import annotations

import ast
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

PACKAGE = "kinesis_assets"
ROOT = Path(__file__).parents[2] / PACKAGE

LAYERS = (
    ("defs",),
    ("cli",),
    ("demo",),
    ("dagster",),
    ("operations", "derive"),
    ("ingest",),
    ("spark", "table"),
    ("kinesis",),
    ("metrics",),
)
"""Folders from top to bottom. Each imports only from folders below it."""

BESIDE = {
    "decoders": frozenset({"kinesis", "schemas", "spark"}),
    "emulator": frozenset[str](),
    "schemas": frozenset[str](),
    "testing": frozenset({"emulator", "kinesis"}),
}
"""Folders beside the layers, and what each may import. Only `demo` and `cli` may import them all."""

USES_BESIDE = {"dagster": frozenset({"decoders", "schemas"}), "derive": frozenset({"schemas"})}
"""Folders beside the layers that another folder may import too."""

INNER_LAYERS = {
    "dagster": (
        ("components", "jobs"),
        ("steps",),
        ("derived",),
        ("sensor",),
        ("checks",),
        ("events", "settings"),
    ),
    "table": (
        ("maintenance",),
        ("commits",),
        ("delta", "iceberg"),
        ("positions",),
        ("run_files",),
        ("store",),
    ),
    "operations": (("leases",), ("catalog", "compare", "doctor", "replay", "seek")),
    "kinesis": (("reading",), ("transport",), ("records",)),
}
"""The same of the folders within a folder. Its own modules may be imported by these, and import them."""

UPWARDS = {("dagster.checks.in_run", "dagster.sensor.sensor_cursor")}
"""Imports against this order: in a run, the checks continue from what the sensor remembers."""

EVERYWHERE = frozenset({"errors", "retry"})
"""What every folder may import."""


@cache
def modules() -> dict[str, Path]:
    """Return the file of each module by its dotted name, without the package's name."""
    found = {}
    for path in ROOT.rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def trees() -> dict[str, ast.Module]:
    """Return the syntax tree of each module."""
    return {name: ast.parse(path.read_text()) for name, path in modules().items()}


@cache
def nodes() -> dict[str, list[ast.AST]]:
    """Return all nodes of each module's syntax tree: to find them takes longer than to visit them."""
    return {name: list(ast.walk(tree)) for name, tree in trees().items()}


@cache
def imports() -> dict[str, set[str]]:
    """Return the modules of the package that each module imports."""
    known = modules()
    return {name: _imported(name, found, known) - {name} for name, found in nodes().items()}


def _imported(module: str, within: list[ast.AST], known: dict[str, Path]) -> set[str]:
    found = set()
    for node in within:
        if isinstance(node, ast.Import):
            named = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{module}: a relative import"
            named = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in named:
            package, _, rest = name.partition(".")
            if package == PACKAGE:
                found.add(rest if rest in known else rest.rpartition(".")[0])
    return found


def folder(module: str) -> str:
    """Return a module's folder at the package's root, or the name of a module that is at the root."""
    return module.partition(".")[0]


def may_import(importing: str, imported: str) -> bool:
    """Return whether a folder may import from another one."""
    if imported in EVERYWHERE:
        return True
    layer = _levels(LAYERS)
    if importing in BESIDE:
        return imported in BESIDE[importing]
    if imported in BESIDE:
        return importing in {"cli", "demo"} or imported in USES_BESIDE.get(importing, ())
    return importing in layer and imported in layer and layer[importing] < layer[imported]


def imports_upwards() -> set[tuple[str, str]]:
    """Return the imports between the folders within a folder that do not lead to a lower one."""
    found = set()
    for top, layers in INNER_LAYERS.items():
        level = _levels(layers)
        for module, others in imports().items():
            for other in others:
                source, target = _inner_folder(top, module), _inner_folder(top, other)
                if source and target and source != target and level[source] >= level[target]:
                    found.add((module, other))
    return found


def _inner_folder(top: str, module: str) -> str:
    """Return the name of a module's folder within a folder; empty if it is in none."""
    parts = module.split(".")
    return parts[1] if parts[0] == top and len(parts) > 2 else ""


def _levels(layers: tuple[tuple[str, ...], ...]) -> dict[str, int]:
    return {name: number for number, names in enumerate(layers) for name in names}


def cycle() -> list[str] | None:
    """Return modules that import each other in a cycle, if there are any."""
    try:
        TopologicalSorter(imports()).prepare()
    except CycleError as error:
        found: list[str] = error.args[1]
        return found
    return None


def picture() -> str:
    """Return the imports between folders as a Mermaid flowchart, without those that others imply."""
    edges: dict[str, set[str]] = {}
    for module, target in imports().items():
        source = folder(module)
        if source and source not in EVERYWHERE | {"definitions", "defs"}:
            edges.setdefault(source, set()).update(folder(other) for other in target)
    edges = {
        source: {target for target in found if target in edges and target != source}
        for source, found in edges.items()
    }
    lines = ["flowchart TD"]
    for source in sorted(edges):
        below = {other for target in edges[source] for other in _reached(target, edges) - {target}}
        lines += [f"    {source} --> {target}" for target in sorted(edges[source] - below)]
    return "\n".join(lines)


def _reached(start: str, edges: dict[str, set[str]]) -> set[str]:
    found, ahead = {start}, [start]
    while ahead:
        for target in edges[ahead.pop()] - found:
            found.add(target)
            ahead.append(target)
    return found
