"""The Spark type of a Protobuf message, which is defined by a descriptor set or by the text of a registry.

`protoc --include_imports --descriptor_set_out=shop.desc shop.proto` writes a descriptor set.
Source: https://protobuf.dev/programming-guides/proto3/
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import lru_cache
from importlib import import_module
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from google.protobuf import descriptor_pb2, wrappers_pb2
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError

from kinesis_assets.errors import InvalidInput
from kinesis_assets.schemas.ddl import Field, columns, struct

if TYPE_CHECKING:
    from collections.abc import Iterator

    from google.protobuf.descriptor import Descriptor, FileDescriptor

_PLAIN = {
    FieldDescriptor.TYPE_BOOL: "BOOLEAN",
    FieldDescriptor.TYPE_BYTES: "BINARY",
    FieldDescriptor.TYPE_DOUBLE: "DOUBLE",
    FieldDescriptor.TYPE_ENUM: "STRING",
    FieldDescriptor.TYPE_FIXED32: "BIGINT",
    FieldDescriptor.TYPE_FIXED64: "DECIMAL(20, 0)",
    FieldDescriptor.TYPE_FLOAT: "FLOAT",
    FieldDescriptor.TYPE_INT32: "INT",
    FieldDescriptor.TYPE_INT64: "BIGINT",
    FieldDescriptor.TYPE_SFIXED32: "INT",
    FieldDescriptor.TYPE_SFIXED64: "BIGINT",
    FieldDescriptor.TYPE_SINT32: "INT",
    FieldDescriptor.TYPE_SINT64: "BIGINT",
    FieldDescriptor.TYPE_STRING: "STRING",
    FieldDescriptor.TYPE_UINT32: "BIGINT",
    FieldDescriptor.TYPE_UINT64: "DECIMAL(20, 0)",
}

_WELL_KNOWN = {
    "google.protobuf.Duration": "DECIMAL(21, 9)",
    "google.protobuf.ListValue": "VARIANT",
    "google.protobuf.Struct": "VARIANT",
    "google.protobuf.Timestamp": "TIMESTAMP",
    "google.protobuf.Value": "VARIANT",
}
"""The messages that have a type of their own, besides wrappers."""

_WRAPPERS = {message.full_name for message in wrappers_pb2.DESCRIPTOR.message_types_by_name.values()}

_BUNDLED = {
    file.name: descriptor_pb2.FileDescriptorProto.FromString(file.serialized_pb)
    for file in (
        import_module(f"google.protobuf.{name}_pb2").DESCRIPTOR
        for name in (
            *("any", "api", "descriptor", "duration", "empty", "field_mask", "source_context", "struct"),
            *("timestamp", "type", "wrappers"),
        )
    )
}
"""The files that come with Protobuf, which a descriptor set need not include."""


def read_message(descriptors: bytes, name: str) -> Descriptor:
    """Return the descriptor of a message.

    Args:
        descriptors: A descriptor set (FileDescriptorSet).
        name: The full name of the message, as in shop.Order.

    Raises:
        InvalidInput: The descriptor set is damaged or incomplete, or it has no such message.
    """
    files = read_files(descriptors)
    for file in files:
        for message in messages(file):
            if message.full_name == name:
                return message
    names = ", ".join(sorted(message.full_name for file in files for message in messages(file))[:20])
    raise InvalidInput(f"the descriptor set has no message {name}; its messages are {names or 'none'}")


def read_files(descriptors: bytes) -> list[FileDescriptor]:
    """Return the files of a descriptor set in its order. Raises `InvalidInput` if it cannot be used."""
    try:
        parsed = descriptor_pb2.FileDescriptorSet.FromString(descriptors)
    except DecodeError as error:
        raise InvalidInput(f"it is not a descriptor set of protoc: {error}") from None
    pool = DescriptorPool()
    files = {file.name: file for file in parsed.file} | _BUNDLED
    added = set[str]()

    def add(name: str, importer: str) -> None:
        if name in added:
            return
        added.add(name)
        if name not in files:
            raise InvalidInput(
                f"the descriptor set lacks {name}, which {importer} imports; create it with --include_imports"
            )
        for imported in files[name].dependency:
            add(imported, name)
        try:
            pool.AddSerializedFile(files[name].SerializeToString())
        except TypeError as error:
            raise InvalidInput(f"the descriptor set is invalid: {name}: {error}") from None

    for file in parsed.file:
        add(file.name, "")
    return [pool.FindFileByName(file.name) for file in parsed.file]


def messages(scope: FileDescriptor | Descriptor) -> Iterator[Descriptor]:
    """Yield the messages of a file or within a message, each before those within it, in their order."""
    found = getattr(scope, "message_types_by_name", None)
    for message in scope.nested_types if found is None else found.values():
        yield message
        yield from messages(message)


def protobuf_columns(message: Descriptor) -> str:
    """Return the columns of a message as DDL.

    Raises:
        InvalidInput: The message has no fields, or it has a part that no Spark type represents.
    """
    if not message.fields:
        raise InvalidInput(f"the message {message.full_name} has no fields")
    if own_type(message) is not None:
        raise InvalidInput(f"the message {message.full_name} is a value without fields; name one around it")
    return columns(_fields(message, "", ()))


def own_type(message: Descriptor) -> str | None:
    """Return the type of a message that is not a struct: of a well-known one, or of one without fields.

    A message without fields only says that it is there, as an alternative of a oneof does.
    """
    if is_wrapper(message):
        return _PLAIN[message.fields_by_name["value"].type]
    if not message.fields:
        return "BOOLEAN"
    return _WELL_KNOWN.get(message.full_name) if message.file.name in _BUNDLED else None


def is_wrapper(message: Descriptor) -> bool:
    """Return whether a message is one of the wrappers of plain values, as Int64Value."""
    return message.full_name in _WRAPPERS and message.file.name in _BUNDLED


def is_map(field: FieldDescriptor) -> bool:
    """Return whether a field is a map, which descriptors represent as repeated messages."""
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def is_repeated(field: FieldDescriptor) -> bool:
    """Return whether a field is repeated. Older releases have only its label, which newer ones deprecate."""
    if hasattr(field, "is_repeated"):
        return bool(field.is_repeated)
    return bool(field.label == FieldDescriptor.LABEL_REPEATED)


def is_required(field: FieldDescriptor) -> bool:
    """Return whether a field is required, see `is_repeated`."""
    if hasattr(field, "is_required"):
        return bool(field.is_required)
    return bool(field.label == FieldDescriptor.LABEL_REQUIRED)


def validates_text(field: FieldDescriptor) -> bool:
    """Return whether Protobuf refuses a message in which the text of the field is not UTF-8."""
    file = descriptor_pb2.FileDescriptorProto()
    field.file.CopyToProto(file)
    return bool(file.syntax == "proto3")


def plain_type(field: FieldDescriptor) -> str:
    """Return the type of a field's values that are no messages."""
    return _PLAIN[field.type]


def _fields(message: Descriptor, path: str, within: tuple[str, ...]) -> list[Field]:
    within = (*within, message.full_name)
    return [
        Field(each.name, _type(each, f"{path}.{each.name}".removeprefix("."), within))
        for each in message.fields
    ]


def _type(field: FieldDescriptor, path: str, within: tuple[str, ...]) -> str:
    if is_map(field):
        return f"MAP<STRING, {_value(field.message_type.fields_by_name['value'], path, within)}>"
    value = _value(field, path, within)
    return f"ARRAY<{value}>" if is_repeated(field) else value


def _value(field: FieldDescriptor, path: str, within: tuple[str, ...]) -> str:
    message = field.message_type
    if message is None:
        return plain_type(field)
    if (own := own_type(message)) is not None:
        return own
    if message.full_name in within:
        raise InvalidInput(
            f"the Protobuf message {within[0]} is recursive: {path} is a part of {message.full_name} itself, "
            "and Spark has no recursive types; name another message"
        )
    return struct(_fields(message, path, within))


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
