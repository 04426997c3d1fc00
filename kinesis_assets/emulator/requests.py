"""Decoding and validation of request bodies.

The structures declare the service's constraints, which msgspec checks while it decodes. Only if that fails is
the body examined a second time, to choose between two errors of the service: ValidationException, which lists
every value that violates a constraint, and SerializationException for a value of the wrong type.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import inspect

from kinesis_assets.emulator.shapes import (
    Member,
    SerializationException,
    StreamARN,
    StreamName,
    ValidationException,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kinesis_assets.emulator.account import Account, Stream


class Request(Member):
    """A request. Each operation is a subclass that has the operation's name."""

    def execute(self, account: Account) -> Member | None:
        """Carry out the operation and return the response; None is an empty response body."""
        raise NotImplementedError


class StreamRequest(Request):
    """A request for one stream, which is identified by its name, its ARN or both."""

    stream_name: StreamName | None = None
    stream_arn: StreamARN | None = None

    def stream(self, account: Account) -> Stream:
        """Return the stream of the request."""
        return account.stream(self.stream_name, self.stream_arn, type(self).__name__)


def decode(body: bytes, kind: type[Request]) -> Request:
    """Decode the body of a request.

    Raises:
        SerializationException: The body is not JSON, or a member has the wrong type.
        ValidationException: A member is missing or violates a constraint.
    """
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        try:
            whole = msgspec.json.decode(body)
        except msgspec.DecodeError as malformed:  # a violation, and malformed JSON after it
            raise SerializationException(str(malformed)) from malformed
        violations = list(_violations(whole, inspect.type_info(kind), ""))
        if violations:
            raise invalid(*violations) from error
        raise SerializationException(str(error)) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SerializationException(str(error)) from error


def invalid(*violations: str) -> ValidationException:
    """Return the error for a list of violations, in the service's wording."""
    noun = "error" if len(violations) == 1 else "errors"
    return ValidationException(f"{len(violations)} validation {noun} detected: {'; '.join(violations)}")


def violation(path: str, constraint: str, value: str = "") -> str:
    """Describe the violation of a constraint at a path such as `records.1.member.data`."""
    return f"Value{value} at '{path}' failed to satisfy constraint: Member must {constraint}"


def _violations(value: Any, kind: inspect.Type, path: str) -> Iterator[str]:
    """Yield every violation in a value. A value that has another type than `kind` has none.

    The path of a nested value ends in a dot.
    """
    if isinstance(kind, inspect.UnionType):
        for choice in kind.types:
            yield from _violations(value, choice, path)
    elif _has_type(value, kind):
        yield from _constraint_violations(value, kind, path)
        if isinstance(kind, inspect.ListType):
            yield from _item_violations(value, kind.item_type, path)
        elif isinstance(kind, inspect.DictType):
            for key, each in value.items():
                yield from _violations(key, kind.key_type, path)
                yield from _violations(each, kind.value_type, path)
        elif isinstance(kind, inspect.StructType):
            for member in kind.fields:
                yield from _member_violations(value, member, path)


def _has_type(value: Any, kind: inspect.Type) -> bool:
    return isinstance(value, _PYTHON_TYPES.get(type(kind), ()))


def _item_violations(items: list[Any], kind: inspect.Type, path: str) -> Iterator[str]:
    for number, item in enumerate(items, 1):
        yield from _violations(item, kind, f"{path}{number}.member.")


def _member_violations(structure: dict[str, Any], member: inspect.Field, path: str) -> Iterator[str]:
    name = f"{path}{member.encode_name[0].lower()}{member.encode_name[1:]}"
    value = structure.get(member.encode_name)
    if value is not None:
        yield from _violations(value, member.type, f"{name}.")
    elif member.required:
        yield violation(name, "not be null", " null")


def _constraint_violations(value: Any, kind: inspect.Type, path: str) -> Iterator[str]:
    shown = "" if isinstance(value, list | dict) else f" '{value}'"
    for constraint, is_met, wording in _CONSTRAINTS:
        limit = getattr(kind, constraint, None)
        if limit is not None and not is_met(value, limit):
            yield violation(path.removesuffix("."), wording(limit), shown)


_PYTHON_TYPES: dict[type[inspect.Type], type] = {
    inspect.DictType: dict,
    inspect.IntType: int,
    inspect.ListType: list,
    inspect.LiteralType: str,
    inspect.StrType: str,
    inspect.StructType: dict,
}
# msgspec's name of a constraint, the check of a value, and the service's wording.
_CONSTRAINTS: tuple[tuple[str, Callable[[Any, Any], bool], Callable[[Any], str]], ...] = (
    (
        "min_length",
        lambda value, limit: len(value) >= limit,
        "have length greater than or equal to {}".format,
    ),
    ("max_length", lambda value, limit: len(value) <= limit, "have length less than or equal to {}".format),
    ("ge", lambda value, limit: value >= limit, "have value greater than or equal to {}".format),
    ("le", lambda value, limit: value <= limit, "have value less than or equal to {}".format),
    (
        "values",
        lambda value, values: value in values,
        lambda values: f"satisfy enum value set: [{', '.join(values)}]",
    ),
    (
        "pattern",
        lambda value, pattern: re.search(pattern, value) is not None,
        "satisfy regular expression pattern: {}".format,
    ),
)
