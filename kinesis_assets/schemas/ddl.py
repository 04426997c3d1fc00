"""Spark types as DDL text, written and parsed without Spark, so that a mistake is found without a JVM.

What is refused here, a typed table cannot have. Spark itself may refuse more.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from kinesis_assets.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

KEEPING = ("error", "shard_id", "sequence_number", "sub_sequence_number", "data")
"""The columns of a typed table by which a record is kept that cannot be decoded."""

DOCUMENT_NUMBER = "document_number"
"""The column with the place of a document in its record, in tables and routers whose records may be split. It
is null in a record that could not be split."""

KEEPING_DOCUMENTS = (*KEEPING[:-1], DOCUMENT_NUMBER, KEEPING[-1])
"""The same as `KEEPING`, in these tables."""

UNCHANGED_COLUMN = "_unchanged"
"""The column of a transformation with the names of the columns whose values a row lacks. An upsert takes them
from the table. It is not stored."""

RECORD = "_record"
"""The name under which expressions find the columns of the raw table of which the record has the name too."""

_RESERVED = {*KEEPING_DOCUMENTS, RECORD, "_batch_id"}
"""The names that the column of a field cannot have."""

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a struct.

    Attributes:
        required: Whether a record without the field cannot be decoded.
    """

    name: str
    type: str
    required: bool = False


def columns(fields: Sequence[Field], separator: str = ", ") -> str:
    """Return a struct as the columns of a table."""
    return separator.join(f"{readable(each.name)} {each.type}{_suffix(each)}" for each in fields)


def struct(fields: Sequence[Field]) -> str:
    """Return a struct as the type of a column."""
    return f"STRUCT<{', '.join(f'{readable(each.name)}: {each.type}{_suffix(each)}' for each in fields)}>"


def quoted(name: str) -> str:
    """Return a name as it is written in Spark SQL."""
    escaped = name.replace("`", "``")
    return f"`{escaped}`"


def readable(name: str) -> str:
    """Return a name as it is written in Spark SQL, without quotes if it needs none."""
    return name if _PLAIN_NAME.fullmatch(name) else quoted(name)


def column_names(fields: Sequence[str]) -> dict[str, str]:
    """Return a name for the column of each field: its own, unless a typed table cannot have such a column."""
    names = {field: _column_name(field) for field in fields}
    taken = {field.lower() for field, name in names.items() if field == name}
    for field, name in names.items():
        unique = name
        while unique != field and unique.lower() in taken:
            unique += "_"
        names[field] = unique
        taken.add(unique.lower())
    return names


def _column_name(field: str) -> str:
    name = "".join(letter if letter.isalnum() or letter == "_" else "_" for letter in field)
    if name.startswith("__"):  # as the names of columns that are added while rows are processed
        name = f"_{name.lstrip('_')}"
    return f"{name}_" if name.lower() in _RESERVED else name


def _suffix(field: Field) -> str:
    return " NOT NULL" if field.required else ""


_TOKEN = re.compile(
    r"\s+|--[^\n]*|/\*.*?\*/"
    r"|(?P<name>\w+|`(?:[^`]|``)*`)"
    r"|(?P<text>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")"
    r"|(?P<sign>[<>(),:])",
    re.DOTALL,
)

_PLAIN = {
    "BIGINT": "BIGINT",
    "BINARY": "BINARY",
    "BOOLEAN": "BOOLEAN",
    "BYTE": "TINYINT",
    "DATE": "DATE",
    "DOUBLE": "DOUBLE",
    "FLOAT": "FLOAT",
    "INT": "INT",
    "INTEGER": "INT",
    "LONG": "BIGINT",
    "REAL": "FLOAT",
    "SHORT": "SMALLINT",
    "SMALLINT": "SMALLINT",
    "STRING": "STRING",
    "TIMESTAMP": "TIMESTAMP",
    "TIMESTAMP_LTZ": "TIMESTAMP",
    "TIMESTAMP_NTZ": "TIMESTAMP_NTZ",
    "TINYINT": "TINYINT",
    "VARIANT": "VARIANT",
}
"""The names of types without parts, and the name that each has here."""

_DECIMAL = {"DEC", "DECIMAL", "NUMERIC"}

MAX_DIGITS = 38
"""The precision that a decimal of Spark has at most."""


def parse_columns(ddl: str) -> list[Field]:
    """Return the columns that DDL describes: `order_id BIGINT, amount DOUBLE`, or `STRUCT<order_id: BIGINT>`.

    Raises:
        InvalidInput: It describes no columns, or columns that no typed table can have.
    """
    try:
        found = _Parser(ddl).columns()
    except RecursionError:
        raise InvalidInput("its types are nested too deeply") from None
    if not found:
        raise InvalidInput("it has no columns; give names and types, as in order_id BIGINT, amount DOUBLE")
    counts = Counter(field.name.lower() for field in found)
    if twice := [field.name for field in found if counts[field.name.lower()] > 1]:
        raise InvalidInput(
            f"the names {', '.join(twice)} are the same for Spark, which ignores their case; rename a column"
        )
    return found


class _Parser:
    """Reads the tokens of some DDL, from the first to the last."""

    def __init__(self, ddl: str) -> None:
        self._tokens = [*_tokens(ddl), ""]
        self._next = 0

    def columns(self) -> list[Field]:
        if not self._word:
            return []
        first, second = self._tokens[:2]
        if second == "<" and first.upper() == "STRUCT":
            self._next = 2
            found = self._fields(">")
        elif second in ("<", "(", ""):
            raise InvalidInput(
                f"{first} is a type, not a column; give names and types, as in order_id BIGINT, amount DOUBLE"
            )
        else:
            return self._fields("")
        self._expect("", "")
        return found

    @property
    def _word(self) -> str:
        return self._tokens[self._next]

    def _fields(self, end: str, path: str = "") -> list[Field]:
        """Read fields, and the token that ends them."""
        found: list[Field] = []
        while self._word != end or found:
            found.append(self._field(path))
            if self._word != ",":
                break
            self._next += 1
        self._expect(end, path)
        return found

    def _field(self, path: str) -> Field:
        if not self._word or self._word[0] in "<>(),:'\"":
            self._refuse(f"the name of a column{f' in {path}' if path else ''}")
        name = self._read()
        name = name[1:-1].replace("``", "`") if name.startswith("`") else name
        path = f"{path}.{name}".removeprefix(".")
        self._skip(":")
        kind = self._type(path)
        required = self._skip("NOT")
        if required:
            self._expect("NULL", path)
        if self._skip("COMMENT"):
            self._skip("R")
            while self._word.startswith(("'", '"')):
                self._read()
        return Field(name, kind, required)

    def _type(self, path: str) -> str:
        if not self._word or self._word in ",>:":
            self._refuse(f"the type of {path}")
        word = self._read()
        match word.upper():
            case "STRUCT":
                self._expect("<", path)
                if found := self._fields(">", path):
                    return struct(found)
                raise InvalidInput(f"{path} is a struct without fields; add a field")
            case "ARRAY":
                self._expect("<", path)
                kind = f"ARRAY<{self._type(path)}>"
                self._expect(">", path)
                return kind
            case "MAP":
                return self._map(path)
            case kind if kind in _DECIMAL:
                return self._decimal(path)
            case kind if kind in _PLAIN:
                return self._plain(kind, path)
        raise InvalidInput(
            f"{path} has the type {word}, which is none of STRUCT, ARRAY, MAP, DECIMAL and "
            f"{', '.join(sorted(set(_PLAIN.values())))}; correct it"
        )

    def _plain(self, kind: str, path: str) -> str:
        if kind == "STRING" and self._skip("COLLATE"):
            self._read()
        if kind == "TIMESTAMP" and self._word.upper() in ("WITH", "WITHOUT"):
            kind = "TIMESTAMP_NTZ" if self._read().upper() == "WITHOUT" else kind
            self._skip("LOCAL")
            for word in ("TIME", "ZONE"):
                self._expect(word, path)
        return _PLAIN[kind]

    def _map(self, path: str) -> str:
        self._expect("<", path)
        if (key := self._type(path)) != "STRING":
            raise InvalidInput(f"{path} is a map with keys of the type {key}; only STRING is supported")
        self._expect(",", path)
        kind = f"MAP<STRING, {self._type(path)}>"
        self._expect(">", path)
        return kind

    def _decimal(self, path: str) -> str:
        digits = ["10", "0"]
        if self._skip("("):
            digits[0] = self._read()
            digits[1] = self._read() if self._skip(",") else "0"
            self._expect(")", path)
        kind = f"DECIMAL({', '.join(digits)})"
        precision, scale = (int(each) if each.isdecimal() else -1 for each in digits)
        if not 0 <= scale <= precision <= MAX_DIGITS or not precision:
            raise InvalidInput(
                f"{path} has the type {kind}; a decimal has 1 to {MAX_DIGITS} digits, and at most as "
                "many of them after its point"
            )
        return kind

    def _read(self) -> str:
        word = self._word
        if word:
            self._next += 1
        return word

    def _skip(self, wanted: str) -> bool:
        """Read the current token if it is another one than the end, and as wanted."""
        found = self._word.upper() == wanted
        self._next += found
        return found

    def _expect(self, wanted: str, path: str) -> None:
        if self._word.upper() != wanted:
            self._refuse(f"{wanted or 'a comma'}{f' behind {path}' if path else ''}")
        self._next += bool(wanted)

    def _refuse(self, wanted: str) -> NoReturn:
        raise InvalidInput(f"it has {self._word or 'its end'} in place of {wanted}; correct it")


def _tokens(ddl: str) -> Iterator[str]:
    start = 0
    while start < len(ddl):
        match = _TOKEN.match(ddl, start)
        if match is None:
            raise InvalidInput(
                f"it has {ddl[start]!r}, which a name has only within backticks, as in `a-b`; correct it"
            )
        if match.lastgroup is not None:
            yield match[0]
        start = match.end()
