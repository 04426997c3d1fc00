"""The proposal of a typed table, or of a table for each kind of documents, from a sample of records."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kinesis_assets.decoders.formats import FORMATS, load_named
from kinesis_assets.decoders.proposed_columns import OF_BYTES, Columns, of_changes, of_objects
from kinesis_assets.decoders.sampled_records import has_path, read_sample, value_at
from kinesis_assets.errors import InvalidInput
from kinesis_assets.schemas.inference import find_kinds, path_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kinesis_assets.decoders.formats import Changes, Format
    from kinesis_assets.decoders.sampled_records import SampledRecords

_Document = dict[str, Any]

_MAIN = 0.95
"""The share of a kind from which on the others are not worth tables of their own."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """The YAML of a component.

    Attributes:
        type: The name of its class.
        comments: The evidence, and what does not fit.
    """

    type: str
    attributes: Mapping[str, Any]
    comments: Sequence[str]


def propose(records: Sequence[bytes], name: str, source: str, table: str) -> Proposal:
    """Return the proposal of tables that decode the records.

    Args:
        name: The name of the stream, with which those of tables begin.
        table: The path or URI of the raw table, with which those of tables begin.
    """
    sample = read_sample(records)
    format_ = sample.format
    if format_ is None:
        raise InvalidInput(
            f"table {table}: no format is recognized in most of {len(records)} records, such as JSON objects "
            f"with fields; {_hint(records)}give the format and the schema yourself"
        )
    target = _Target(name, source, table.rstrip("/"), _decoding(sample, format_), sample.records)
    if format_.changes is not None:
        found = _of_changes(sample, format_.changes, target, has_one_row=not format_.multiplies)
    elif format_.is_json:
        found = _of_json(sample.values, target)
    else:
        found = target.table(OF_BYTES[format_.name](sample))
    first = f"Proposed from {sample.records} records of {table}. Check it before you use it."
    comments = [first, *sample.notes, *found.comments]
    if format_.changes is None:
        comments.append("Add key and order_by to keep only the newest row of each key.")
    return replace(found, comments=comments)


def _hint(records: Sequence[bytes]) -> str:
    """Return how many records have a header of a format."""
    counts = {each.name: sum(map(each.is_headed, records)) for each in FORMATS.values()}
    return "".join(
        f"{count} of them begin as with format: {name}; " for name, count in counts.items() if count
    )


def _decoding(sample: SampledRecords, format_: Format) -> dict[str, Any]:
    how = {"format": format_.name, "compression": sample.compression, "split": sample.split}
    return {name: value for name, value in how.items() if value is not None}


@dataclass(frozen=True, slots=True)
class _Target:
    """Where the proposed tables are.

    Attributes:
        decoding: The settings of how documents are decoded, which all tables share.
    """

    name: str
    source: str
    uri: str
    decoding: Mapping[str, Any]
    records: int

    def table(self, found: Columns, only: Mapping[str, Any] | None = None) -> Proposal:
        """Return the proposal of one table."""
        if "schema" not in found.settings:
            raise InvalidInput(
                f"table {self.uri}: {self.records} records have no fields; give the schema yourself"
            )
        filters = {"only": dict(only)} if only else {}
        attributes = {**self._place("typed"), **self.decoding, **filters, **found.settings}
        return Proposal("KinesisTableComponent", attributes, found.comments)

    def tables(self, path: str, found: Mapping[Any, Columns]) -> Proposal:
        """Return the proposal of a table for each value at a path."""
        routes, taken = list[dict[str, Any]](), {"router"}
        for value, each in found.items():
            suffix = re.sub(r"[^a-z0-9]+", "_", str(value).lower()).strip("_") or "other"
            while suffix in taken:
                suffix += "_"
            taken.add(suffix)
            place = self._place(suffix)
            routes.append({"match": value, "name": place["name"], "table": place["table"], **each.settings})
        attributes = {**self._place("router"), **self.decoding, "route_by": path, "routes": routes}
        comments = [f"{value}: {comment}" for value, each in found.items() for comment in each.comments]
        return Proposal("KinesisRoutesComponent", attributes, comments)

    def _place(self, suffix: str) -> dict[str, Any]:
        return {"name": f"{self.name}_{suffix}", "source": self.source, "table": f"{self.uri}_{suffix}"}


def _of_changes(sample: SampledRecords, changes: Changes, target: _Target, *, has_one_row: bool) -> Proposal:
    """Return a table for each table of the database.

    Args:
        has_one_row: Whether each change has exactly one. Otherwise no router can split records.
    """
    read = load_named(changes.sampler)
    path = next((each for each in changes.table_names if _most_have(sample.values, each)), "")
    tables: dict[str, list[bytes]] = defaultdict(list)
    for document, value in zip(sample.documents, sample.values, strict=True):
        table = value_at(value, path) if path else None
        tables[table if isinstance(table, str) else ""].append(document)
    columns = {table: of_changes(read(documents), changes) for table, documents in tables.items()}
    named = [table for table, each in columns.items() if table and each.settings]
    if len(named) < 2:  # noqa: PLR2004
        return target.table(columns.get(named[0] if named else "", Columns({})))
    named.sort(key=lambda table: -len(tables[table]))
    total = len(sample.documents)
    comments = [_share(path, table, len(tables[table]), total) for table in named]
    if len(tables[named[0]]) >= _MAIN * total or (sample.split and not has_one_row):
        proposal = target.table(columns[named[0]], {path: named[0]})
        comments.append(_COPY)
    else:
        proposal = target.tables(path, {table: columns[table] for table in named})
    return replace(proposal, comments=[*comments, *proposal.comments])


_COPY = "Only the first of them has a table here: copy it for another one."


def _most_have(documents: Sequence[Any], path: str) -> bool:
    return 2 * sum(has_path(each, path) for each in documents) > len(documents)


def _share(path: str, value: Any, count: int, total: int) -> str:
    return f"{path} is {value} in {count} of {total} documents ({count / total:.1%})."


_LOG_EVENTS, _MESSAGE_TYPE, _DATA = "logEvents", "messageType", "DATA_MESSAGE"
"""Of the records that CloudWatch Logs writes."""


def _of_json(documents: Sequence[_Document], target: _Target) -> Proposal:
    array, comments = _array_of_rows(documents)
    unnested = None
    if array is not None:
        unnested = array[0] if len(array) == 1 else None
        path = path_text(array)
        target = replace(target, decoding={**target.decoding, "unnest": path})
        rows = [each for document in documents for each in _elements(document, array)]
        if path == _LOG_EVENTS and (data := [each for each in rows if each.get(_MESSAGE_TYPE) == _DATA]):
            comments.append(f"{len(rows) - len(data)} rows are of control messages, and are left out.")
            proposal = target.table(of_objects(data, unnested), {_MESSAGE_TYPE: _DATA})
            return replace(proposal, comments=[*comments, *proposal.comments])
        documents = rows
    proposal = _of_kinds(documents, target, unnested)
    return replace(proposal, comments=[*comments, *proposal.comments])


def _of_kinds(documents: Sequence[_Document], target: _Target, unnested: str | None) -> Proposal:
    """Return a table for each kind of documents; or one, if nearly all are of one kind."""
    kinds = find_kinds(documents)
    if kinds is None:
        return target.table(of_objects(documents, unnested))
    total, sizes = len(documents), {kind: len(each) for kind, each in kinds.documents.items()}
    comments = [_share(kinds.path, kind, size, total) for kind, size in sizes.items()]
    if rest := total - sum(sizes.values()):
        comments.append(f"{kinds.path} has no such value in {rest} documents, which have no table here.")
    main = next(iter(sizes))
    if sizes[main] >= _MAIN * total:
        proposal = target.table(of_objects(kinds.documents[main], unnested), {kinds.path: main})
        comments.append(_COPY)
    else:
        found = {kind: of_objects(each, unnested) for kind, each in kinds.documents.items()}
        proposal = target.tables(kinds.path, found)
    return replace(proposal, comments=[*comments, *proposal.comments])


_ENVELOPES = {_LOG_EVENTS, "Records", "records", "events", "batch"}
"""The names of arrays that are known to have one event in each element."""

_DEPTH = 3
_FEW = 4


def _array_of_rows(documents: Sequence[_Document]) -> tuple[tuple[str, ...] | None, list[str]]:
    """Return the path of the array whose elements are rows, if there is one, and a comment on it.

    It is the only array of objects. Either its name is known, or no field beside it identifies a document.
    """
    counts, sizes = Counter[tuple[str, ...]](), Counter[tuple[str, ...]]()
    for document in documents:
        for path, array in _arrays(document):
            counts[path] += 1
            sizes[path] += len(array)
    found = [path for path in counts if sizes[path]]
    if len(found) != 1 or 2 * counts[found[0]] <= len(documents):
        return None, []
    [path] = found
    what = f"{path_text(path)} has {sizes[path]} objects in {len(documents)} documents"
    is_larger = len(documents) >= _FEW and sizes[path] >= 2 * len(documents)
    if path[-1] in _ENVELOPES or (is_larger and not _is_identified(documents)):
        return path, [f"{what}, each of which becomes a row."]
    return None, [f"{what}. With unnest: {path_text(path)}, each would be a row."]


def _arrays(value: _Document, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], list[Any]]]:
    for name, each in value.items():
        if isinstance(each, dict) and len(path) + 1 < _DEPTH and name:
            yield from _arrays(each, (*path, name))
        elif isinstance(each, list) and all(isinstance(element, dict) for element in each) and name:
            yield (*path, name), each


def _is_identified(documents: Sequence[_Document]) -> bool:
    """Return whether a field has another value in most of the documents."""
    values: dict[str, set[Any]] = defaultdict(set)
    for document in documents:
        for name, value in document.items():
            if isinstance(value, str | int | float):
                values[name].add(value)
    return any(2 * len(each) > len(documents) for each in values.values())


def _elements(document: _Document, path: Sequence[str]) -> list[_Document]:
    """Return the documents that `Unnest` makes of one."""
    name, *rest = path
    value = document.get(name)
    if rest:
        parts: list[Any] = _elements(value, rest) if isinstance(value, dict) else []
    else:
        parts = value if isinstance(value, list) else []
    return [{**document, name: each} for each in parts]
