"""The version of this package's code, by which a run detects a server whose tasks would run other code."""

from __future__ import annotations

import hashlib
from pathlib import Path

CODE_SETTING = "spark.kinesis_assets.code"
"""The Spark setting with a server's code version. A server without it, as on a cluster, is accepted."""

_PACKAGE = Path(__file__).parents[1]
_DIGITS = 12


def code_hash(package: Path = _PACKAGE) -> str:
    """Return a hash of the package's modules, without the definitions that only this repository deploys."""
    digest = hashlib.sha256()
    modules = {path.relative_to(package).as_posix(): path for path in package.rglob("*.py")}
    for name, path in sorted(modules.items()):
        if not name.startswith(("defs/", "definitions.py")):
            content = path.read_bytes()
            digest.update(f"{name}:{len(content)}:".encode())
            digest.update(content)
    return digest.hexdigest()[:_DIGITS]
