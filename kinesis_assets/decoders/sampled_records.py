"""Samples of records: how they are compressed and split, and which format they have, as their bytes show."""

from __future__ import annotations

import csv
from codecs import BOM_UTF8
from collections import Counter
from dataclasses import dataclass, replace
from functools import cache
from io import StringIO
from typing import TYPE_CHECKING, Any

from kinesis_assets.decoders.compression import codec_of, decompress
from kinesis_assets.decoders.decoder import MAX_BYTES, Decoding, Undecodable
from kinesis_assets.decoders.formats import FORMATS
from kinesis_assets.decoders.json_paths import parse_path
from kinesis_assets.decoders.split import Split
from kinesis_assets.schemas.inference import read_document

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kinesis_assets.decoders.formats import Format
    from kinesis_assets.decoders.split import SplitMode

_OPENING = (b"{", b"[")
_DELIMITERS = {"csv": ",", "tsv": "\t"}

_KEPT = "would be kept as records with an error"


@dataclass(frozen=True, slots=True)
class SampledRecords:
    """The documents of some records.

    Attributes:
        format: Their format; None if it is none that can be recognized.
        documents: The documents that have the format, as bytes.
        values: The same as values: of JSON, or lists of the texts of delimited values.
        notes: What does not fit, with its number.
    """

    format: Format | None
    compression: str | None = None
    split: SplitMode | None = None
    documents: Sequence[bytes] = ()
    values: Sequence[Any] = ()
    notes: Sequence[str] = ()
    records: int = 0


def read_sample(records: Sequence[bytes]) -> SampledRecords:
    """Return the documents of some records, in the form that most of them have."""
    codecs = {codec_of(record) for record in records} or {None}
    compression = "auto" if len(codecs) > 1 else codecs.pop()
    plain, lost = _decompressed(records, compression)
    found = _with_format(plain)
    if found.format is None and compression is None:
        blocks, others = _decompressed(records, "snappy")
        if 2 * sum(each.lstrip().startswith(_OPENING) for each in blocks) > len(blocks) + others:
            compression, plain, lost = "snappy", blocks, others
            found = _with_format(plain)
    notes = [*_misfits(lost, "cannot be decompressed"), *found.notes]
    return replace(found, records=len(plain) + lost, compression=compression, notes=notes)


_MOST_BYTES = 64 << 20
"""The decompressed size of a sample at which no further record is read."""


def _decompressed(records: Sequence[bytes], compression: str | None) -> tuple[list[bytes], int]:
    """Return the records that are valid, decompressed, and the number of the others."""
    if compression is None:
        return [*records], 0
    found, size, lost = list[bytes](), 0, 0
    for record in records:
        try:
            found.append(decompress(record, compression, MAX_BYTES))
        except Undecodable:
            lost += 1
            continue
        size += len(found[-1])
        if size > _MOST_BYTES:
            break
    return found, lost


def _with_format(records: Sequence[bytes]) -> SampledRecords:
    for format_ in FORMATS.values():
        if format_.headers:
            found = [*filter(format_.is_headed, records)]
            if 2 * len(found) > len(records):
                notes = _misfits(len(records) - len(found), f"do not have the header of {format_.name}")
                return SampledRecords(format_, documents=found, notes=notes)
    split = _split_of(records)
    if split is not _NO_JSON:
        return _json(records, split)
    return _delimited(records)


def _misfits(count: int, what: str) -> list[str]:
    return [f"{count} of them {what}, and {_KEPT}."] if count else []


_NO_JSON: Any = "no JSON"


def _split_of(records: Sequence[bytes]) -> SplitMode | None:
    """Return how records are split into documents of JSON."""
    forms = Counter(map(_form, records))
    documents = forms["document"] + forms["marked"] + forms["pretty"]
    several = forms["lines"] + forms["documents"]
    tombstones = forms["nothing"]
    if 2 * (documents + several + forms["array"]) <= len(records) - tombstones:
        return _NO_JSON  # type: ignore[no-any-return]
    if forms["array"] > documents + several:
        return "array"
    if forms["documents"] or (several and forms["pretty"]):
        return "documents"
    return "lines" if several or forms["marked"] else None


def _form(record: bytes) -> str:
    """Return what a record is: a document, which may have lines or a byte order mark, or several."""
    text = record.removeprefix(BOM_UTF8).strip()
    if not text:
        return "nothing"
    value = read_document(text)
    if isinstance(value, dict):
        if text != record.strip():
            return "marked"
        return "pretty" if b"\n" in text else "document"
    if isinstance(value, list):
        return "array" if any(isinstance(each, dict) for each in value) else "other"
    lines, documents = (_objects(record, mode) for mode in ("lines", "documents"))
    if max(lines, documents) == 0 or value is not None:
        return "other"
    return "documents" if documents > lines else "lines"


def _objects(record: bytes, mode: Any) -> int:
    return sum(isinstance(read_document(each), dict) for each in _parts(record, mode))


def _parts(record: bytes, split: SplitMode | None) -> Iterator[bytes]:
    if split is None:
        yield record
        return
    for part in Split(split).make_step()(Decoding(record)) or ():
        yield part.value


def _json(records: Sequence[bytes], split: SplitMode | None) -> SampledRecords:
    notes, documents, unsplit = list[str](), list[bytes](), 0
    for record in records:
        try:
            documents += _parts(record, split)
        except Undecodable:
            unsplit += 1
    notes += _misfits(unsplit, "are not JSON arrays")
    pairs = [(each, read_document(each)) for each in documents]
    objects = [(each, value) for each, value in pairs if isinstance(value, dict)]
    if split is not None:
        notes.append(f"They have {len(documents)} documents, see split.")
    marked = {
        name: [pair for pair in objects if _is_marked(pair[1], format_.marks)]
        for name, format_ in FORMATS.items()
        if format_.marks
    }
    name = next((each for each, found in marked.items() if 2 * len(found) > len(objects)), "json")
    format_ = FORMATS[name]
    if format_.changes is not None:
        tombstones = sum(each in format_.changes.tombstones for each in documents)
        notes += [f"{tombstones} of them are tombstones, which have no row."] if tombstones else []
        notes += _misfits(len(pairs) - len(objects) - tombstones, "are not JSON objects")
        if rest := len(objects) - len(marked[name]):
            notes.append(f"{rest} of them are no changes of rows, such as heartbeats; others {_KEPT}.")
        objects = marked[name]
    else:
        notes += _misfits(len(pairs) - len(objects), "are not JSON objects")
    return SampledRecords(
        format_, None, split, [each for each, _ in objects], [value for _, value in objects], notes
    )


def _is_marked(value: Any, marks: Sequence[Sequence[str]]) -> bool:
    return any(all(has_path(value, path) for path in paths) for paths in marks)


_MISSING = object()
_names = cache(parse_path)


def has_path(value: Any, path: str) -> bool:
    """Return whether a document has a path."""
    return value_at(value, path, _MISSING) is not _MISSING


def value_at(value: Any, path: str, missing: Any = None) -> Any:
    """Return the value at the path of a document, or *missing* if there is none."""
    for name in _names(path):
        value = value.get(name, missing) if isinstance(value, dict) else missing
    return value


def _delimited(records: Sequence[bytes]) -> SampledRecords:
    """Return the rows of delimited values, of which most have the same number."""
    lines, others = list[bytes](), 0
    is_split = False
    for record in records:
        found = [*_parts(record, "lines")]
        is_split = is_split or len(found) > 1 or record.startswith(BOM_UTF8)
        lines += found
    for name, delimiter in _DELIMITERS.items():
        rows = [row for line in lines if (row := _row(line, delimiter)) is not None]
        others = len(lines) - len(rows)
        [(width, count)] = Counter(map(len, rows)).most_common(1) or [(0, 0)]
        if width > 1 and 2 * count > len(lines):
            notes = [f"They have {len(lines)} rows, see split."] if is_split else []
            notes += _misfits(others, "are not UTF-8, or have a quote that is not closed")
            notes += _misfits(len(rows) - count, f"do not have {width} values")
            values = [row for row in rows if len(row) == width]
            split: SplitMode | None = "lines" if is_split else None
            return SampledRecords(FORMATS[name], split=split, values=values, notes=notes)
    return SampledRecords(None)


def _row(line: bytes, delimiter: str) -> list[str] | None:
    try:
        text = line.decode()
        if delimiter == "\t":
            return text.split("\t")
        rows = [*csv.reader(StringIO(text, newline=""), strict=True)]
    except (UnicodeDecodeError, csv.Error):
        return None
    return rows[0] if len(rows) == 1 else None
