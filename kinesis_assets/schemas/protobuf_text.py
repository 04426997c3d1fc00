"""Definitions of Protobuf as text, which registries have, compiled to descriptors by protoc."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import lru_cache
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from kinesis_assets.errors import InvalidInput
from kinesis_assets.schemas.protobuf_schema import read_files

if TYPE_CHECKING:
    from google.protobuf.descriptor import FileDescriptor

_NAME = "definition.proto"
_SECONDS = 300
_REASON_CHARACTERS = 300

_LOGGED = re.compile(r"WARNING: |[IWEF]\d{4} ")
"""The beginning of what protoc logs beside errors."""


def require_protoc() -> None:
    """Raise `InvalidInput` if protoc is not installed."""
    try:
        import grpc_tools  # noqa: F401, PLC0415  # an extra
    except ImportError as error:
        raise InvalidInput(
            "definitions of Protobuf in a registry need grpcio-tools: pip install 'kinesis-assets[protobuf]'"
        ) from error


@lru_cache(maxsize=64)
def compiled(definition: str, imports: tuple[tuple[str, str], ...] = ()) -> FileDescriptor:
    """Return the descriptor of a definition. The process caches it, because protoc is a process of its own.

    Args:
        definition: The text of a .proto file.
        imports: The names and texts of the files that it imports. Those of Protobuf itself need not be given.

    Raises:
        InvalidInput: The definition cannot be compiled.
    """
    with TemporaryDirectory() as folder:
        for name, text in (*imports, (_NAME, definition)):
            path = PurePosixPath(name)
            if path.is_absolute() or ".." in path.parts:
                raise InvalidInput(f"it imports {name}, which is not a relative path")
            Path(folder, path).parent.mkdir(parents=True, exist_ok=True)
            Path(folder, path).write_text(text, encoding="utf-8")
        return _protoc(folder)


def _protoc(folder: str) -> FileDescriptor:
    # A process, because protoc writes its errors to the standard error of the process.
    import grpc_tools  # noqa: PLC0415  # an extra

    bundled = Path(grpc_tools.__path__[0], "_proto")
    written = Path(folder, "definition.desc")
    command = [sys.executable, "-m", "grpc_tools.protoc", f"--proto_path={folder}", f"--proto_path={bundled}"]
    try:
        done = subprocess.run(  # noqa: S603  # no shell, and only names from here
            [*command, "--include_imports", f"--descriptor_set_out={written}", _NAME],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise InvalidInput(f"protoc has not compiled its definition within {_SECONDS} s") from None
    if done.returncode:
        lines = done.stderr.decode(errors="replace").replace(f"{folder}/", "").splitlines()
        reason = "; ".join(line for line in lines if not _LOGGED.match(line))[:_REASON_CHARACTERS]
        raise InvalidInput(f"protoc cannot compile its definition: {reason}")
    return read_files(written.read_bytes())[-1]
