"""Which code of this package stands here, so that a run finds a server whose tasks would run another."""

from __future__ import annotations

import hashlib
from pathlib import Path

CODE = "spark.kinesis_assets.code"
"""The setting by which a server tells it. One that does not, as of another machine, is taken as it is."""

_PACKAGE = Path(__file__).parents[1]
_DIGITS = 12


def code_of(package: Path = _PACKAGE) -> str:
    """A name for the package's modules as they stand now, all together; `defs` is the project's own."""
    digest = hashlib.sha256()
    modules = {path.relative_to(package).as_posix(): path for path in package.rglob("*.py")}
    for name, path in sorted(modules.items()):
        if not name.startswith("defs/"):
            content = path.read_bytes()
            digest.update(f"{name}:{len(content)}:".encode())
            digest.update(content)
    return digest.hexdigest()[:_DIGITS]
