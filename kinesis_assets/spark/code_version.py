"""The version of this package's code, by which a run detects executors that would run other code."""

from __future__ import annotations

import hashlib
from pathlib import Path

_PACKAGE = Path(__file__).parents[1]
_DIGITS = 12


def package_modules(package: Path = _PACKAGE) -> dict[str, Path]:
    """Return the files of the package's modules, without the definitions that only this repository deploys.

    Args:
        package: The folder of the package.

    Returns:
        The files by their path relative to the package, in the order of these paths.
    """
    modules = {path.relative_to(package).as_posix(): path for path in package.rglob("*.py")}
    return {
        name: path
        for name, path in sorted(modules.items())
        if not name.startswith(("defs/", "definitions.py"))
    }


def code_hash(package: Path = _PACKAGE) -> str:
    """Return a hash of the package's modules."""
    digest = hashlib.sha256()
    for name, path in package_modules(package).items():
        content = path.read_bytes()
        digest.update(f"{name}:{len(content)}:".encode())
        digest.update(content)
    return digest.hexdigest()[:_DIGITS]
