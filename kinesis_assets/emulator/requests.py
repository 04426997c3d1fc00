"""From the body of a request to its structure, or to the error that says what is wrong with it.

The structures carry the service's bounds, and msgspec checks them while it decodes. Only when it finds fault
is the body gone through again, to tell the service's two errors apart: a value out of bounds
(ValidationException, which names every such value) and a value of another type (SerializationException).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import inspect

from kinesis_assets.emulator.errors import SerializationException, ValidationException
from kinesis_assets.emulator.shapes import Member, StreamARN, StreamName

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kinesis_assets.emulator.account import Account
    from kinesis_assets.emulator.streams import Stream


class Request(Member):
    """An operation as it was asked for; each operation is a class of its name."""

    def execute(self, account: Account) -> Member | None:
        """Carry the operation out; None is answered by an empty body."""
        raise NotImplementedError


class StreamRequest(Request):
    """An operation on one stream, which goes by its name, its ARN or both."""

    stream_name: StreamName | None = None
    stream_arn: StreamARN | None = None

    def stream(self, account: Account) -> Stream:
        """The stream that is meant."""
        return account.stream(self.stream_name, self.stream_arn, type(self).__name__)


def decode(body: bytes, kind: type[Request]) -> Request:
    """The request in a body."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        try:
            whole = msgspec.json.decode(body)
        except msgspec.DecodeError as cut:  # wrong from its first byte on, and then cut
            raise SerializationException(str(cut)) from cut
        violations = list(_violations(whole, inspect.type_info(kind), ""))
        if violations:
            raise invalid(*violations) from error
        raise SerializationException(str(error)) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SerializationException(str(error)) from error


def invalid(*violations: str) -> ValidationException:
    """The error that lists violations as the service words them."""
    noun = "error" if len(violations) == 1 else "errors"
    return ValidationException(f"{len(violations)} validation {noun} detected: {'; '.join(violations)}")


def violation(path: str, constraint: str, value: str = "") -> str:
    """One violation of a constraint, at a path such as `records.1.member.data`."""
    return f"Value{value} at '{path}' failed to satisfy constraint: Member must {constraint}"


def _violations(value: Any, kind: inspect.Type, path: str) -> Iterator[str]:
    """Each bound that the value breaks; a value of another type than `kind` breaks none.

    A path that leads to something ends in a dot.
    """
    if isinstance(kind, inspect.UnionType):
        for choice in kind.types:
            yield from _violations(value, choice, path)
    elif _is_of(value, kind):
        yield from _broken_bounds(value, kind, path)
        if isinstance(kind, inspect.ListType):
            yield from _item_violations(value, kind.item_type, path)
        elif isinstance(kind, inspect.StructType):
            for member in kind.fields:
                yield from _member_violations(value, member, path)


def _is_of(value: Any, kind: inspect.Type) -> bool:
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


def _broken_bounds(value: Any, kind: inspect.Type, path: str) -> Iterator[str]:
    shown = "" if isinstance(value, list | dict) else f" '{value}'"
    for bound, holds, wording in _BOUNDS:
        limit = getattr(kind, bound, None)
        if limit is not None and not holds(value, limit):
            yield violation(path.removesuffix("."), wording(limit), shown)


_PYTHON_TYPES: dict[type[inspect.Type], type] = {
    inspect.IntType: int,
    inspect.ListType: list,
    inspect.LiteralType: str,
    inspect.StrType: str,
    inspect.StructType: dict,
}
# What msgspec calls a bound, whether a value keeps it, and how the service words it.
_BOUNDS: tuple[tuple[str, Callable[[Any, Any], bool], Callable[[Any], str]], ...] = (
    ("min_length", lambda it, least: len(it) >= least, "have length greater than or equal to {}".format),
    ("max_length", lambda it, most: len(it) <= most, "have length less than or equal to {}".format),
    ("ge", lambda it, least: it >= least, "have value greater than or equal to {}".format),
    ("le", lambda it, most: it <= most, "have value less than or equal to {}".format),
    (
        "values",
        lambda it, values: it in values,
        lambda values: f"satisfy enum value set: [{', '.join(values)}]",
    ),
    (
        "pattern",
        lambda it, pattern: re.search(pattern, it) is not None,
        "satisfy regular expression pattern: {}".format,
    ),
)
