"""Random records of several shapes, and the changes in them: what a table with a key is to be computed from.

The changes are read with nothing but the JSON module, from the very bytes that are in the stream. They are
what the documentation of formats and of settings says, and not what a decoder of the package returns.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable, Iterator, Mapping

KEYS, TIMES = 6, 3
LATE = 8
"""The number of latest changes of a database of which any may arrive next."""

INVALID_DAY = "0000-00-00"
UNAVAILABLE = "__debezium_unavailable_value"

_EPOCH = datetime(2026, 4, 1, tzinfo=UTC)
_MICROSECONDS = 1_775_001_600_000_000


@dataclass(frozen=True)
class Change:
    """A row of a key, or its deletion.

    Attributes:
        at: The version of the row, by which older changes are left out; None is older than any.
        knows_note: Whether the note is known; otherwise it is that of the row which this one replaces.
    """

    key: int
    at: int | None
    number: int | None = None
    note: str | None = None
    is_gone: bool = False
    knows_note: bool = True


@dataclass(frozen=True)
class Bad:
    """A record or document that cannot be decoded."""

    data: bytes
    document: int | None


class Shape(ABC):
    """How records are made of changes.

    Attributes:
        settings: The settings of a typed table with the columns `key`, `number` and `note`.
        schema: The type of the documents.
        numbers_documents: Whether records are split or filtered, so that bad documents are numbered.
        records: The number of records of which fewer are put at once.
    """

    settings: ClassVar[Mapping[str, Any]]
    schema: ClassVar[str] = "key INT, number INT, note STRING"
    numbers_documents: ClassVar[bool] = True
    records: ClassVar[int] = 12

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._number = 0

    @abstractmethod
    def record(self) -> bytes:
        """Return the next record."""

    def documents(self, record: bytes) -> Iterable[bytes] | None:
        """Return the documents of a record; None if it cannot be split."""
        return [record]

    @abstractmethod
    def changes(self, document: bytes) -> Iterable[Change] | None:
        """Return the changes in a document, in their order; None if it cannot be decoded."""

    def taken(self, record: bytes) -> Iterator[Change | Bad]:
        """Yield what is in a record."""
        documents = self.documents(record)
        if documents is None:
            yield Bad(record, None)
        for number, document in enumerate(documents or ()):
            changes = self.changes(document)
            if changes is None:
                yield Bad(document, number if self.numbers_documents else None)
            yield from changes or ()

    def _happens(self, share: float) -> bool:
        return self._chance.random() < share


class Arrays(Shape):
    """Records with an array of events, which expressions take apart."""

    settings: ClassVar = {
        "format": "json",
        "select": ["inline(events)", "CAST(day AS DATE) AS day"],
        "order_by": ["at"],
        "delete_where": "gone",
    }
    schema: ClassVar = (
        "events ARRAY<STRUCT<key: INT, at: INT, gone: BOOLEAN, number: INT, note: STRING, "
        "_unchanged: ARRAY<STRING>>>, day STRING"
    )
    numbers_documents: ClassVar = False

    def record(self) -> bytes:
        if self._happens(0.02):
            return b"no events"
        day = INVALID_DAY if self._happens(0.02) else "2026-01-01"
        events = [self._event() for _ in range(self._chance.choice([0, 1, 1, 1, 3]))]
        return json.dumps({"events": events, "day": day}).encode()

    def _event(self) -> dict[str, Any]:
        self._number += 1
        note = self._chance.choice([None, f"note {self._number}"])
        return {
            "key": self._chance.randrange(KEYS),
            "at": self._chance.choice([None, *range(TIMES)]),
            "gone": self._happens(0.3),
            "number": self._number,
            "note": note,
            "_unchanged": ["note"] if note is None else self._chance.choice([None, []]),
        }

    def changes(self, document: bytes) -> Iterable[Change] | None:
        if not document.startswith(b"{"):
            return None
        record = json.loads(document)
        if record["events"] and record["day"] == INVALID_DAY:
            return None
        return map(_change_of, record["events"])


class Lines(Arrays):
    """Lines with an event each, among others of another kind and some that are damaged."""

    settings: ClassVar = {
        "format": "json",
        "split": "lines",
        "only": {"kind": ["event", None]},
        "order_by": ["at"],
        "delete_where": "gone",
    }
    schema: ClassVar = "key INT, at INT, gone BOOLEAN, number INT, note STRING, _unchanged ARRAY<STRING>"
    numbers_documents: ClassVar = True

    def record(self) -> bytes:
        lines = [self._line() for _ in range(self._chance.choice([1, 2, 4]))]
        mark = b"\xef\xbb\xbf" if self._happens(0.2) else b""
        return mark + self._chance.choice([b"\n", b"\r\n", b"\n \n"]).join(lines)

    def _line(self) -> bytes:
        event = self._event()
        if self._happens(0.2):
            return json.dumps({"kind": "other", "key": "of another kind"}).encode()
        if self._happens(0.05):
            return self._chance.choice([b"no event", b'{"key": 1, "at"', b'{"kind": "event", "key": "one"}'])
        return json.dumps(event | self._chance.choice([{}, {"kind": None}, {"kind": "event"}])).encode()

    def documents(self, record: bytes) -> Iterable[bytes]:
        lines = record.removeprefix(b"\xef\xbb\xbf").split(b"\n")
        return [line.removesuffix(b"\r") for line in lines if line.strip()]

    def changes(self, document: bytes) -> Iterable[Change] | None:
        try:
            event = json.loads(document)
        except ValueError:
            return None
        if event.get("kind") == "other":
            return []
        return None if event["key"] == "one" else [_change_of(event)]


def _change_of(event: dict[str, Any]) -> Change:
    key, at, number, note = (event[name] for name in ("key", "at", "number", "note"))
    return Change(key, at, number, note, is_gone=event["gone"], knows_note=not event["_unchanged"])


@dataclass(frozen=True)
class Operation:
    """What a transaction of a database does to a row.

    Attributes:
        before: The row before it; None if there was none.
        after: The row after it; None if it is deleted.
        at: Its time. Several transactions have the same.
    """

    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None
    at: int

    @property
    def name(self) -> str:
        if self.after is None:
            return "delete"
        return "insert" if self.before is None else "update"


class Changes(Shape):
    """Records of the changes of a database. Some arrive late, or again."""

    moves_keys: ClassVar[bool] = True
    records: ClassVar = 24

    def __init__(self, chance: random.Random) -> None:
        super().__init__(chance)
        self._rows: dict[int, dict[str, Any]] = {}
        self._late: list[bytes] = []

    @abstractmethod
    def _document(self, operation: Operation) -> bytes:
        """Return the document of an operation."""

    def _next(self) -> bytes:
        """Return the next document that arrives: that of one of the latest operations."""
        while len(self._late) < LATE:
            self._late.append(self._document(self._operation()))
        place = self._chance.randrange(len(self._late))
        return self._late[place] if self._happens(0.2) else self._late.pop(place)

    def _operation(self) -> Operation:
        self._number += 1
        key, at = self._chance.choice([*self._rows, *range(KEYS)]), self._number // 4
        before = self._rows.pop(key, None)
        if before is not None and self._happens(0.2):
            return Operation(before, None, at)
        note = f"note {self._number}" if before is None or self._happens(0.3) else before["note"]
        after = {"key": key, "number": self._number, "note": note}
        if before is not None and self.moves_keys and self._happens(0.4):
            after["key"] = self._chance.choice([each for each in range(2 * KEYS) if each not in self._rows])
        self._rows[after["key"]] = after
        return Operation(before, after, at)


class DynamoDB(Changes):
    """Changes of a table of DynamoDB, among those of another one."""

    settings: ClassVar = {"format": "dynamodb", "only": {"tableName": "notes"}}
    moves_keys: ClassVar = False

    def record(self) -> bytes:
        return self._next()

    def _document(self, operation: Operation) -> bytes:
        before, after = operation.before, operation.after
        change: dict[str, Any] = {
            "Keys": {"key": {"N": str((after or before or {})["key"])}},
            "ApproximateCreationDateTime": _MICROSECONDS // 1000 + operation.at,
        }
        if self._happens(0.5):
            change["ApproximateCreationDateTime"] *= 1000
            change["ApproximateCreationDateTimePrecision"] = "MICROSECOND"
        if after is not None:
            change["NewImage"] = _attributes(after)
        if before is not None and self._happens(0.5):
            change["OldImage"] = _attributes(before)
        name = {"insert": "INSERT", "update": "MODIFY", "delete": "REMOVE"}[operation.name]
        table = "others" if self._happens(0.1) else "notes"
        if after is not None and self._happens(0.05):
            change["NewImage"]["number"] = {"S": "none"}
        return json.dumps({"tableName": table, "eventName": name, "dynamodb": change}).encode()

    def changes(self, document: bytes) -> Iterable[Change] | None:
        record = json.loads(document)
        if record["tableName"] != "notes":
            return []
        change = record["dynamodb"]
        key, at = int(change["Keys"]["key"]["N"]), change["ApproximateCreationDateTime"]
        at = at if "ApproximateCreationDateTimePrecision" in change else at * 1000
        if record["eventName"] == "REMOVE":
            return [Change(key, at, is_gone=True)]
        image = change["NewImage"]
        if "S" in image["number"]:
            return None
        return [Change(key, at, int(image["number"]["N"]), image["note"].get("S"))]


def _attributes(row: Mapping[str, Any]) -> dict[str, Any]:
    note = {"NULL": True} if row["note"] is None else {"S": row["note"]}
    return {"key": {"N": str(row["key"])}, "number": {"N": str(row["number"])}, "note": note}


class ArraysOfDMS(Changes):
    """Arrays with changes that AWS DMS has captured, of several tables, and records that control it."""

    settings: ClassVar = {
        "format": "dms",
        "split": "array",
        "only": {"metadata.table-name": "notes"},
    }

    def record(self) -> bytes:
        documents = [self._element() for _ in range(self._chance.choice([0, 1, 2, 4]))]
        end = b"" if self._happens(0.02) else b"]"
        return b"[" + b",\n".join(documents) + end

    def _element(self) -> bytes:
        if self._happens(0.1):
            return self._written("control", "create-table", 0)
        return self._next()

    def _document(self, operation: Operation) -> bytes:
        before, after = operation.before, operation.after
        image = dict(after or before or {})
        if self._happens(0.5):
            image["number"] = str(image["number"])  # as DMS writes numbers of some databases
        if self._happens(0.05):
            image["key"] = "none"
        name = "load" if operation.name == "insert" and self._happens(0.3) else operation.name
        more = {"data": image}
        if before is not None and after is not None:
            more["before-image"] = {"key": before["key"]}
        return self._written("data", name, operation.at, **more)

    def _written(self, kind: str, operation: str, at: int, **more: Any) -> bytes:
        metadata = {
            "timestamp": (_EPOCH + timedelta(seconds=at)).isoformat(),
            "record-type": kind,
            "operation": operation,
            "table-name": "others" if self._happens(0.1) else "notes",
        }
        return json.dumps({"metadata": metadata, **more}).encode()

    def documents(self, record: bytes) -> Iterable[bytes] | None:
        if not record.endswith(b"]"):
            return None
        return [each for each in record[1:-1].split(b",\n") if each]

    def changes(self, document: bytes) -> Iterable[Change] | None:
        change = json.loads(document)
        metadata = change["metadata"]
        if metadata["table-name"] != "notes" or metadata["record-type"] == "control":
            return []
        at = int(datetime.fromisoformat(metadata["timestamp"]).timestamp())
        image, before = change["data"], change.get("before-image")
        if image["key"] == "none":
            return None
        if metadata["operation"] == "delete":
            return [Change(image["key"], at, is_gone=True)]
        row = Change(image["key"], at, int(image["number"]), image["note"])
        return [*_moved(before, row), row]


def _moved(before: Mapping[str, Any] | None, row: Change) -> list[Change]:
    """Return the deletion of the key that a row had before, if it was another one."""
    if before is None or before["key"] == row.key:
        return []
    return [Change(before["key"], row.at, is_gone=True)]


class Debezium(Changes):
    """Changes that Debezium has captured, as envelopes and flat rows, some without a long value."""

    settings: ClassVar = {"format": "debezium"}
    numbers_documents: ClassVar = False

    def record(self) -> bytes:
        if self._happens(0.1):
            return self._chance.choice([b"null", b'{"ts_ms": 1}', b'{"op": "m", "source": {"lsn": 1}}'])
        if self._happens(0.05):
            return b'{"op": "t", "source": {"lsn": 1}}'
        return self._next()

    def _document(self, operation: Operation) -> bytes:
        before, after = operation.before, operation.after
        lsn = None if self._happens(0.05) else operation.at
        if before is not None and after is not None and before["note"] == after["note"]:
            after = {**after, "note": UNAVAILABLE}
        letter = {"insert": "c", "update": "u", "delete": "d"}[operation.name]
        is_moved = before is not None and after is not None and before["key"] != after["key"]
        if not is_moved and self._happens(0.3):
            image = {"key": (after or before or {})["key"], "number": None, "note": None} | dict(after or {})
            flat = {"__op": letter, "__deleted": str(after is None).lower(), "__source_lsn": lsn}
            return json.dumps(image | flat).encode()
        if before is not None and self._happens(0.5):
            before = {"key": before["key"]}
        if letter == "c" and self._happens(0.2):
            letter = "r"
        change: dict[str, Any] = {"op": letter, "before": before, "after": after, "source": {"lsn": lsn}}
        if self._happens(0.3):
            change = {"schema": {"type": "struct", "optional": False}, "payload": change}
        return json.dumps(change).encode()

    def changes(self, document: bytes) -> Iterable[Change] | None:
        if document == b"null":
            return []
        change = json.loads(document)
        change = change.get("payload", change)
        if "__op" in change:
            is_gone = change["__deleted"] == "true"
            return [_of_image(change, change["__source_lsn"], is_gone=is_gone)]
        letter = change.get("op", "m")
        if letter in ("m", "t"):
            return [] if letter == "m" else None
        before, after, at = change["before"], change["after"], change["source"]["lsn"]
        if after is None:
            return [_of_image(before, at, is_gone=True)]
        if after["note"] == UNAVAILABLE and before is not None:
            after = {**after, "note": before.get("note", UNAVAILABLE)}
        row = _of_image(after, at)
        return [*_moved(before, row), row]


def _of_image(image: Mapping[str, Any], at: int | None, *, is_gone: bool = False) -> Change:
    if is_gone:
        return Change(image["key"], at, is_gone=True)
    note, knows_note = image["note"], image["note"] != UNAVAILABLE
    return Change(image["key"], at, image["number"], note if knows_note else None, knows_note=knows_note)


SHAPES: dict[str, type[Shape]] = {
    "arrays": Arrays,
    "lines": Lines,
    "arrays of DMS": ArraysOfDMS,
    "DynamoDB": DynamoDB,
    "Debezium": Debezium,
}
