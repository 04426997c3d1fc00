"""Protobuf payloads of schema registries. Each begins with the index of its message in a definition.

A Glue payload begins with a varint: the place of the message among all messages of the definition, including
those of maps, sorted by their full names. A Confluent payload begins with a path: the number of its parts,
and in each part the place of a message in the file or in the message before, in the order of the definition.
All of them are zigzag varints, and the path of the first message is a single 0.

Sources: https://github.com/awslabs/aws-glue-schema-registry (MessageIndexFinder) and
https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kinesis_assets.decoders.decoder import Undecodable
from kinesis_assets.decoders.protobuf import protobuf_reader
from kinesis_assets.decoders.varint import read_varint
from kinesis_assets.errors import InvalidInput
from kinesis_assets.schemas.protobuf_schema import compiled, messages, require_protoc

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from google.protobuf.descriptor import Descriptor, FileDescriptor
    from pyspark.sql.types import DataType

    Imports = tuple[tuple[str, str], ...]

_MAX_DEPTH = 32


def registered_protobuf_reader(
    definition: str, imports: Imports, spark_type: DataType, *, is_sorted: bool
) -> Callable[[bytes], Any]:
    """Create a function that decodes a payload or raises `Undecodable`.

    Args:
        is_sorted: Whether payloads begin with a place among all messages, as those of Glue do, and not with a
            path.

    Raises:
        InvalidInput: protoc is not installed.
        Undecodable: The definition cannot be compiled.
    """
    require_protoc()
    try:
        file = compiled(definition, imports)
    except InvalidInput as error:
        raise Undecodable(str(error)) from error
    by_name = sorted(messages(file), key=lambda each: str(each.full_name))
    readers: dict[tuple[int, ...], Callable[[bytes], Any]] = {}

    def read(payload: bytes) -> Any:
        path, start = _varints(payload, 0, 1) if is_sorted else _path(payload)
        if path not in readers:
            message = _at(by_name, path[0]) if is_sorted else _within(file, path)
            readers[path] = protobuf_reader(message, spark_type)
        return readers[path](payload[start:])

    return read


def registered_message(definition: str, imports: Imports, name: str | None) -> Descriptor:
    """Return a message of a definition.

    Args:
        name: Its full name; None for the only one that is not within another.

    Raises:
        InvalidInput: There is none, or there are several; or protoc is not installed.
    """
    require_protoc()
    found = {each.full_name: each for each in messages(compiled(definition, imports))}
    if name is None:
        found = {full: each for full, each in found.items() if each.containing_type is None}
        if len(found) == 1:
            return next(iter(found.values()))
        raise InvalidInput(f"it has the messages {', '.join(found) or 'none'}; name one with message")
    if name not in found:
        raise InvalidInput(f"it has no message {name}; its messages are {', '.join(found) or 'none'}")
    return found[name]


def _path(payload: bytes) -> tuple[tuple[int, ...], int]:
    (count,), start = _varints(payload, 0, 1)
    count = _unsigned(count)
    if not count:
        return (0,), start
    if count > _MAX_DEPTH:
        raise Undecodable(f"no message: the path of the payload's message has {count} parts")
    parts, start = _varints(payload, start, count)
    return tuple(map(_unsigned, parts)), start


def _varints(payload: bytes, start: int, count: int) -> tuple[tuple[int, ...], int]:
    found = []
    for _ in range(count):
        if (read := read_varint(payload, start)) is None:
            raise Undecodable("no message: the payload does not begin with the place of its message")
        number, start = read
        found.append(number)
    return tuple(found), start


def _unsigned(zigzag: int) -> int:
    if zigzag % 2:
        raise Undecodable(f"no message: the payload's message has the place {-(zigzag // 2) - 1}")
    return zigzag // 2


def _within(file: FileDescriptor, path: tuple[int, ...]) -> Descriptor:
    scope: Any = file
    for place in path:
        scope = _at([each for each in messages(scope) if _is_declared(each, scope)], place)
    return scope


def _is_declared(message: Descriptor, scope: Any) -> bool:
    """Return whether a message is directly within a scope, and not one of a map, which paths do not count."""
    return not message.GetOptions().map_entry and message.containing_type == (
        None if message.file == scope else scope
    )


def _at(found: Sequence[Descriptor], place: int) -> Descriptor:
    if place >= len(found):
        raise Undecodable(f"no message: there are {len(found)}, and none at the place {place}")
    return found[place]
