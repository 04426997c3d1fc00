"""The entry of a Delta table in the AWS Glue Data Catalog, as engines of AWS expect one without a manifest.

It is the entry that Athena itself writes for `CREATE EXTERNAL TABLE ... TBLPROPERTIES ('table_type' =
'DELTA')`: the parameters `table_type` and `spark.sql.sources.provider`, the formats and the SerDe that Spark
writes for a table that has none in Hive, and the folder of the table both as its location and as the
parameter `path` of the SerDe, from which Spark takes it. Athena and Spark read the columns from the log of
the table. Lake Formation, views, and filters of rows and columns take them from the entry, which must
therefore have those of the log.

Sources: Amazon Athena User Guide, "Query Linux Foundation Delta Lake tables" with its pages "Get started",
"Synchronize Delta Lake metadata" and "Supported column data types"
(https://docs.aws.amazon.com/athena/latest/ug/delta-lake-tables.html); AWS Glue Web API, `TableInput`,
`StorageDescriptor` and `Column`, for the limits
(https://docs.aws.amazon.com/glue/latest/webapi/API_TableInput.html).

An entry of this package has marks: parameters with the id of the table, the version of the table from which
it was written, and a fingerprint of what was written. An entry without them belongs to somebody else, and one
that no longer has its fingerprint was changed by somebody else.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from kinesis_assets.errors import CatalogFailed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kinesis_assets.table.delta.version import TableVersion

Found = dict[str, Any]
"""A table as GetTable returns it."""

TABLE_ID = "kinesis_assets.table_id"
TABLE_VERSION = "kinesis_assets.version"
FINGERPRINT = "kinesis_assets.fingerprint"
ASSET = "kinesis_assets.asset"
STREAM = "kinesis_assets.stream_asset"
"""The names of the marks, which are parameters."""

_KIND = {
    "EXTERNAL": "TRUE",
    "classification": "delta",
    "spark.sql.sources.provider": "delta",
    "table_type": "delta",
}
"""The parameters by which engines know a Delta table."""

_FORMATS = {
    "InputFormat": "org.apache.hadoop.mapred.SequenceFileInputFormat",
    "OutputFormat": "org.apache.hadoop.hive.ql.io.HiveSequenceFileOutputFormat",
}
_SERDE = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"

MAX_NAME, MAX_TYPE, MAX_VALUE = 255, 131_072, 512_000
"""The maximum lengths of the name of a column, of its type, and of the value of a parameter."""

_TYPES = {
    "binary": "binary",
    "boolean": "boolean",
    "byte": "tinyint",
    "date": "date",
    "double": "double",
    "float": "float",
    "integer": "int",
    "long": "bigint",
    "short": "smallint",
    "string": "string",
    "timestamp": "timestamp",
    "timestamp_ntz": "timestamp",  # Hive has one type for both, and Athena reads which it is from the log
}
"""By Delta's name of a type without parts, that of Hive."""

_DECIMAL = re.compile(r"decimal\(\d+,\d+\)")

_FIELD = re.compile(r"[\w.$ ]+")
"""The names of fields that Hive's parser of types accepts, and so Athena's. Columns can have any name."""


@dataclass(frozen=True)
class Entry:
    """The entry that a table should have.

    Attributes:
        database: The database of the Data Catalog.
        location: The URI of the table's folder, with a slash at its end.
        columns: The name and the type of each column that is no partition column.
        partition_keys: The same of the partition columns.
        marks: The marks, without the fingerprint.
    """

    database: str
    name: str
    location: str
    columns: tuple[tuple[str, str], ...]
    partition_keys: tuple[tuple[str, str], ...]
    properties: Mapping[str, str]
    marks: Mapping[str, str]

    @classmethod
    def of(cls, snapshot: TableVersion, database: str, name: str, *, asset: str, stream: str) -> Entry:
        """Return the entry for a version of a table.

        Args:
            asset: The asset key of the table.
            stream: The asset key of its stream.

        Raises:
            CatalogFailed: The Data Catalog cannot have one of its columns.
        """
        fields = {field["name"].lower(): field["type"] for field in snapshot.schema["fields"]}
        _refuse_equal([field["name"] for field in snapshot.schema["fields"]], "")
        columns = {name: _column(name, kind) for name, kind in fields.items()}
        keys = [name.lower() for name in snapshot.partition_by]
        return cls(
            database,
            name,
            f"{snapshot.folder.uri}/",
            tuple(each for column, each in columns.items() if column not in keys),
            tuple(columns[key] for key in keys),
            {key: text for key, text in snapshot.properties.items() if len(text) <= MAX_VALUE},
            {TABLE_ID: snapshot.id, TABLE_VERSION: str(snapshot.version), ASSET: asset, STREAM: stream},
        )

    def __str__(self) -> str:
        return f"{self.database}.{self.name}"

    @property
    def version(self) -> int:
        """The version of the table."""
        return int(self.marks[TABLE_VERSION])

    @cached_property
    def fingerprint(self) -> str:
        """The fingerprint of what is written."""
        return fingerprint_of(self._shape)

    @cached_property
    def content(self) -> str:
        """A hash of all that the entry should have. It is the same for versions that only have other rows."""
        return _hash({name: text for name, text in self._parameters.items() if name != TABLE_VERSION})

    @property
    def _shape(self) -> Found:
        return {
            "TableType": "EXTERNAL_TABLE",
            "Parameters": _KIND,
            "PartitionKeys": [{"Name": name, "Type": kind} for name, kind in self.partition_keys],
            "StorageDescriptor": {
                "Columns": [{"Name": name, "Type": kind} for name, kind in self.columns],
                "Location": self.location,
                **_FORMATS,
                "SerdeInfo": {
                    "SerializationLibrary": _SERDE,
                    "Parameters": {"path": self.location, "serialization.format": "1"},
                },
            },
        }

    def table_input(self, found: Found | None = None) -> Found:
        """Return the entry as the API takes it.

        Args:
            found: The entry to replace, of which it keeps what people add: a description, an owner, comments
                on columns, and other parameters; None for a new one.
        """
        before = found or {}
        shape = self._shape
        comments = {
            column["Name"]: column["Comment"] for column in _columns_of(before) if column.get("Comment")
        }
        for column in _columns_of(shape):
            if column["Name"] in comments:
                column["Comment"] = comments[column["Name"]]
        kept: Found = {key: before[key] for key in ("Description", "Owner", "Retention") if key in before}
        others = before.get("Parameters", {}) if is_marked(before) else {}
        parameters = {**others, **self._parameters}
        return {**kept, **shape, "Name": self.name, "Parameters": parameters}

    @property
    def _parameters(self) -> dict[str, str]:
        return {**self.properties, **_KIND, **self.marks, FINGERPRINT: self.fingerprint}

    def is_in(self, found: Found, *, or_later: bool = True) -> bool:
        """Return whether a found entry says the same of the table.

        Args:
            or_later: Or what a later version of it said.
        """
        parameters = found.get("Parameters", {})
        is_same_table = parameters.get(TABLE_ID) == self.marks[TABLE_ID]
        if or_later and is_same_table and _version_of(parameters) > self.version:
            return True
        wanted = {name: text for name, text in self._parameters.items() if name != TABLE_VERSION}
        return fingerprint_of(found) == self.fingerprint and wanted.items() <= parameters.items()

    def refusal_to_replace(self, found: Found) -> str | None:
        """Return why a found entry must not be replaced; None if it is one of this table."""
        location = found.get("StorageDescriptor", {}).get("Location", "")
        if not is_marked(found):
            return f"there is an entry already, which {_maker(found)}; its location is {location or 'empty'}"
        if fingerprint_of(found) != found["Parameters"].get(FINGERPRINT):
            return "somebody has changed the columns, the location or the format of the entry"
        if location != self.location:
            return f"the entry is that of another table, at {location}"
        return None


def is_marked(found: Found) -> bool:
    """Return whether this package made an entry."""
    return TABLE_ID in found.get("Parameters", {})


def fingerprint_of(table: Found) -> str:
    """Return a fingerprint of the parts of an entry that this package writes and nobody else may change."""
    storage = table.get("StorageDescriptor", {})
    serde = storage.get("SerdeInfo", {})
    parts = [
        table.get("TableType"),
        {name: table.get("Parameters", {}).get(name) for name in _KIND},
        [[column["Name"], column.get("Type")] for column in _columns_of(table)],
        len(table.get("PartitionKeys", ())),
        [storage.get(name) for name in ("Location", *_FORMATS)],
        [serde.get("SerializationLibrary"), serde.get("Parameters", {}).get("path")],
    ]
    return _hash(parts)


def _hash(parts: object) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


def _columns_of(table: Found) -> list[dict[str, str]]:
    storage = table.get("StorageDescriptor", {})
    return [*storage.get("Columns", ()), *table.get("PartitionKeys", ())]


def _version_of(parameters: Mapping[str, str]) -> int:
    text = parameters.get(TABLE_VERSION, "")
    return int(text) if text.isdecimal() else -1


def _maker(found: Found) -> str:
    crawler = found.get("Parameters", {}).get("UPDATED_BY_CRAWLER")
    if crawler is not None:
        return f"the crawler {crawler} made"
    creator = found.get("CreatedBy")
    return "somebody else made" if creator is None else f"{creator} made"


def _column(name: str, kind: Any) -> tuple[str, str]:
    """Return a column with Hive's name of its type. Raises `CatalogFailed`."""
    if len(name) > MAX_NAME:
        raise _refused(name[:80], f"its name has {len(name)} characters, and at most {MAX_NAME} are allowed")
    text = _type(name, kind)
    if len(text) > MAX_TYPE:
        raise _refused(name, f"its type has {len(text)} characters, and at most {MAX_TYPE} are allowed")
    return name, text


def _type(name: str, kind: Any) -> str:
    """Return Hive's name of a type of Delta's metadata.

    Args:
        name: The name of the column, and of the fields that lead to the type.
    """
    if isinstance(kind, str):
        found = kind if _DECIMAL.fullmatch(kind) else _TYPES.get(kind)
        if found is None:
            raise _refused(name, f"it has the type {kind}, which Athena does not have")
        return found
    match kind["type"]:
        case "array":
            return f"array<{_type(name, kind['elementType'])}>"
        case "map":
            return f"map<{_type(name, kind['keyType'])},{_type(name, kind['valueType'])}>"
        case "struct":
            return f"struct<{','.join(_fields(name, kind['fields']))}>"
        case other:
            raise _refused(name, f"it has the type {other}, which Athena does not have")


def _fields(name: str, fields: Iterable[Mapping[str, Any]]) -> list[str]:
    fields = list(fields)
    _refuse_equal([field["name"] for field in fields], f"{name}.")
    found = []
    for field in fields:
        path = f"{name}.{field['name']}"
        if not _FIELD.fullmatch(field["name"]):
            raise _refused(path, "in the name of a field, Athena accepts letters, digits and _ only")
        found.append(f"{field['name'].lower()}:{_type(path, field['type'])}")
    return found


def _refuse_equal(names: list[str], path: str) -> None:
    counts = Counter(name.lower() for name in names)
    twice = [f"{path}{name}" for name in names if counts[name.lower()] > 1]
    if twice:
        raise _refused(" and ".join(twice), "their names differ only by case, and the Data Catalog has none")


def _refused(name: str, reason: str) -> CatalogFailed:
    return CatalogFailed(
        f"the Data Catalog cannot have {name}: {reason}", advice="Select it under another name or type"
    )
