"""The package's imports, read from its source: which folder imports which.

Imports inside functions and under TYPE_CHECKING count as any other.
"""

from __future__ import annotations

import ast
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

PACKAGE = "kinesis_assets"
ROOT = Path(__file__).parents[2] / PACKAGE

LAYERS = (
    ("cli",),
    ("demo",),
    ("dagster",),
    ("doctor", "replay", "adopt"),
    ("seek",),
    ("ingest",),
    ("spark", "table"),
    ("kinesis",),
)
"""Folders from the top to the bottom: each imports only from folders below it."""

BESIDE = {
    "decoders": frozenset[str](),
    "emulator": frozenset[str](),
    "testing": frozenset({"emulator", "kinesis"}),
}
"""Folders beside the layers, and what each may import. The demonstration and the command line import them."""

EVERYWHERE = frozenset({"errors", "retry"})
"""Modules of the package's root that every folder may import."""


@cache
def modules() -> dict[str, Path]:
    """Every module by its dotted name without the package's, and its file."""
    found = {}
    for path in ROOT.rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def imports() -> dict[str, set[str]]:
    """The modules of the package that each module imports."""
    known = modules()
    return {name: _imported(path, known) - {name} for name, path in known.items()}


def _imported(path: Path, known: dict[str, Path]) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            named = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: a relative import"
            named = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in named:
            package, _, rest = name.partition(".")
            if package == PACKAGE:
                found.add(rest if rest in known else rest.rpartition(".")[0])
    return found


def folder(module: str) -> str:
    """A module's folder at the package's root; the module itself if it is there."""
    return module.partition(".")[0]


def may_import(importing: str, imported: str) -> bool:
    """Whether a folder may import from another one."""
    if imported in EVERYWHERE:
        return True
    layer = {name: number for number, names in enumerate(LAYERS) for name in names}
    if importing in BESIDE:
        return imported in BESIDE[importing]
    if imported in BESIDE:
        return importing in {"cli", "demo"}
    return importing in layer and imported in layer and layer[importing] < layer[imported]


def cycle() -> list[str] | None:
    """Modules that import each other in a circle, if any."""
    try:
        TopologicalSorter(imports()).prepare()
    except CycleError as error:
        circle: list[str] = error.args[1]
        return circle
    return None


def picture() -> str:
    """The folders and their imports as a Mermaid flowchart, without those that others imply."""
    edges: dict[str, set[str]] = {}
    for module, imported in imports().items():
        here = folder(module)
        if here and here not in EVERYWHERE and here != "definitions":
            edges.setdefault(here, set()).update(folder(other) for other in imported)
    edges = {
        here: {there for there in found if there in edges and there != here} for here, found in edges.items()
    }
    lines = ["flowchart TD"]
    for here in sorted(edges):
        below = {other for there in edges[here] for other in _reached(there, edges) - {there}}
        lines += [f"    {here} --> {there}" for there in sorted(edges[here] - below)]
    return "\n".join(lines)


def _reached(start: str, edges: dict[str, set[str]]) -> set[str]:
    found, ahead = {start}, [start]
    while ahead:
        for there in edges[ahead.pop()] - found:
            found.add(there)
            ahead.append(there)
    return found
