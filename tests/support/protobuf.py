"""Protobuf messages and the descriptor sets of their definitions."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from google.protobuf.message_factory import GetMessageClass
from grpc_tools import protoc

from kinesis_assets.schemas.protobuf_schema import read_message

if TYPE_CHECKING:
    from google.protobuf.message import Message

BUNDLED = str(Path(protoc.__file__).parent / "_proto")


@cache
def descriptor_set(definition: str, *, include_imports: bool = True) -> bytes:
    """Return what protoc writes for the text of a definition."""
    with TemporaryDirectory() as folder:
        Path(folder, "shop.proto").write_text(definition)
        written = Path(folder, "shop.desc")
        options = [f"--proto_path={folder}", f"--proto_path={BUNDLED}", f"--descriptor_set_out={written}"]
        options += ["--include_imports"] if include_imports else []
        assert protoc.main(["protoc", *options, "shop.proto"]) == 0, definition
        return written.read_bytes()


def message(definition: str, name: str, **fields: Any) -> Message:
    """Return a message of a definition."""
    return GetMessageClass(read_message(descriptor_set(definition), name))(**fields)
