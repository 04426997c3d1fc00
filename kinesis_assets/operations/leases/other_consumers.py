"""Positions that consumers other than the KCL store: each reader returns where its consumer would go on.

- Redpanda Connect: a DynamoDB table with the last sequence number of each shard that it has processed.
- Spark's Kinesis connector (that of AWS, and its predecessor of Qubole): the checkpoint folder of a query. A
  batch has its starts in `offsets`, and the ends that its tasks reached beside the source.
- Flink: the state of a savepoint as JSON, one object for each shard.
- Any other: a JSON map of shard ids to positions.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kinesis_assets.errors import InvalidInput, LeasesRefused
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.start_positions import SHARD_END
from kinesis_assets.operations.leases.starts import ConsumerShard
from kinesis_assets.table.store.storage import files_in

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow.fs

    from kinesis_assets.kinesis.stream import StreamIdentity
    from kinesis_assets.operations.leases.lease_table import Item
    from kinesis_assets.table.store.storage import TableFolder

REDPANDA_KEY = ("StreamID", "ShardID")
"""The attributes that identify an item of Redpanda Connect, which has an item for each shard."""

_NO_SUB = -1
_LATEST = frozenset({"LATEST", "LATEST_SEQUENCE_NUM", "AT_TIMESTAMP_SEQUENCE_NUM"})
_EARLIEST = frozenset({"TRIM_HORIZON", "EARLIEST_SEQUENCE_NUM"})
_ENDED = frozenset({SHARD_END, "SHARD_ENDING_SEQUENCE_NUM"})
"""The values that consumers store instead of sequence numbers. The long names are those of Flink."""


def signs_of_life(items: Sequence[Item], identity: StreamIdentity) -> dict[str, Item]:
    """Return the items that Redpanda Connect changes while it reads a stream, by stream and shard id."""
    found = {}
    for item in items:
        stream, shard_id = (item.get(name, {}).get("S") for name in REDPANDA_KEY)
        if stream in {identity.name, identity.arn}:
            found[f"{stream} {shard_id}"] = item
    return found


def of_redpanda(items: Sequence[Item], identity: StreamIdentity) -> dict[str, ConsumerShard]:
    """Return where Redpanda Connect is in each shard of a stream.

    Raises:
        LeasesRefused: An item is invalid, or there is none of the stream.
    """
    found: dict[str, ConsumerShard] = {}
    refused: dict[str, str] = {}
    streams = set()
    for item in items:
        stream, shard_id, number = (item.get(name, {}).get("S") for name in (*REDPANDA_KEY, "SequenceNumber"))
        streams.add(str(stream))
        if stream not in {identity.name, identity.arn}:
            continue
        source = f"item {stream} {shard_id}"
        try:
            position = None if number is None else Position.after(number)
        except InvalidInput as error:
            refused[source] = error.reason
            continue
        if shard_id in found:
            refused[source] = "the stream has items by its name and by its ARN. Delete the old ones"
        found[str(shard_id)] = ConsumerShard(source, str(number), position)
    if refused:
        raise LeasesRefused(identity.name, refused)
    if not found:
        has = f"has items of {', '.join(sorted(streams))}, but" if streams else "is empty: it has"
        raise LeasesRefused(
            identity.name,
            {"checkpoint table": f"it {has} none of the stream. Correct the stream or the table"},
        )
    return found


def of_spark(folder: TableFolder, stream: str) -> dict[str, ConsumerShard]:
    """Return where a query of Spark is after its last committed batch.

    Args:
        folder: The checkpoint folder of the query.

    Raises:
        InvalidInput: It is not that of a query over the stream, or a file in it is invalid.
    """
    files = folder.open()
    committed = _newest_batch(files, folder.uri)
    source, offsets = _offsets(_read(files, f"offsets/{committed}", folder.uri), stream, folder.uri)
    batch = offsets.pop("metadata").get("batchId")
    if batch is None:
        raise InvalidInput(
            f"{folder.uri}: offsets/{committed} has no batchId, so it is unknown how far the query has read. "
            "Give the positions with --from json"
        )
    ends: dict[str, Any] = {}
    for name in ("shard-source", "shard-commit"):
        for info in _listed(files, f"sources/{source}/{name}/{batch}", folder.uri):
            if not info.base_name.startswith("."):
                ends[info.base_name] = _json(_read(files, info.path, folder.uri), info.path)
    if not ends:
        raise InvalidInput(
            f"{folder.uri}: batch {batch} has no ends of its shards beside its source {source}, so it is "
            "unknown how far it has read. If the connector stores them elsewhere, give the positions with "
            "--from json"
        )
    return {
        shard_id: _parsed(f"batch {batch}", shard_id, ends.get(shard_id, start))
        for shard_id, start in offsets.items()
    }


def of_flink(path: str) -> dict[str, ConsumerShard]:
    """Return where a Flink job is, from a JSON file with one object for each shard, as a list or as lines.

    Raises:
        InvalidInput: The file cannot be read, or has something else.
    """
    text = _text(path)
    as_list = text.lstrip().startswith("[")
    objects = _json(text, path) if as_list else [_json(line, path) for line in text.splitlines()]
    found: dict[str, ConsumerShard] = {}
    for state in objects:
        shard_id = state.get("shardId") if isinstance(state, dict) else None
        if not isinstance(shard_id, str) or shard_id in found:
            raise InvalidInput(
                f"{path}: {json.dumps(state)[:200]} has no shardId, or that of another object; correct it"
            )
        found[shard_id] = _parsed(path, shard_id, state)
    return found


def of_json(path: str) -> dict[str, ConsumerShard]:
    """Return positions from a JSON file with a map of shard ids, in the form of the setting `start`.

    Raises:
        InvalidInput: The file cannot be read, or has something else.
    """
    content = _json(_text(path), path)
    if not isinstance(content, dict):
        raise InvalidInput(f"{path} must contain a map of shard ids to positions")
    return {shard_id: _parsed(path, shard_id, value) for shard_id, value in content.items()}


def _parsed(source: str, shard_id: str, value: Any) -> ConsumerShard:
    """Return a position in one of the forms in which consumers write it.

    A text is a position as in `start`, or a sequence number, after which the consumer goes on.
    """
    where = f"{source}, {shard_id}"
    try:
        if isinstance(value, str):
            kind = _kind(value)
            position = _of_text(kind)
        elif isinstance(value, dict) and "startingPosition" in value:
            start = value["startingPosition"]
            kind = _kind(start["shardIteratorType"])
            position = _of_iterator(kind, start.get("startingMarker"), {})
        elif isinstance(value, dict) and "iteratorType" in value:
            kind = _kind(value["iteratorType"])
            position = _of_iterator(kind, value.get("iteratorPosition"), value)
        elif isinstance(value, dict):
            kind = _kind(value["sequenceNumber"])
            position = _of_text(kind)
            sub = int(value.get("subSequenceNumber", _NO_SUB))
            if sub != _NO_SUB and position is not None:
                position = Position.after(str(position.sequence_number), sub)
        else:
            raise InvalidInput(f"{value!r} is not understood")  # noqa: TRY301  # as the others
    except (InvalidInput, KeyError, OSError, OverflowError, TypeError, ValueError) as error:
        raise InvalidInput(
            f"{where}: {json.dumps(value)[:200]} is no position that is understood ({error}). Correct it, or "
            "give the positions with --from json"
        ) from None
    stored = value if isinstance(value, str) else json.dumps(value)
    return ConsumerShard(where, stored, position, ended=kind in _ENDED)


def _kind(value: object) -> str:
    # Position.parse ignores the case too: "latest" must not become the service's present time.
    return str(value).strip().upper()


def _of_text(text: str) -> Position | None:
    if text in _ENDED or text in _LATEST:
        return None
    if text in _EARLIEST:
        return Position(PositionKind.TRIM_HORIZON)
    if text.isdigit():
        return Position.after(text)
    return Position.parse(text)


def _of_iterator(kind: str, marker: object, sub_sequence: Mapping[str, Any]) -> Position | None:
    """Return a position that is stored as the arguments of GetShardIterator, with a sub-sequence number."""
    if kind in _ENDED or kind == PositionKind.LATEST:
        return None
    if kind == PositionKind.AT_TIMESTAMP and str(marker).isdigit():
        return Position.at_timestamp(datetime.fromtimestamp(int(str(marker)) / 1000, UTC))
    position = Position.parse(f"{kind}:{marker}" if marker else kind)
    sub = int(sub_sequence.get("subSequenceNumber", _NO_SUB))
    if sub == _NO_SUB or str(sub_sequence.get("isLast", False)).lower() == "true":
        return position
    if position.kind is not PositionKind.AFTER_SEQUENCE_NUMBER:
        raise InvalidInput(f"{kind} with a sub-sequence number")
    return Position.after(str(position.sequence_number), sub)


def _newest_batch(files: pyarrow.fs.FileSystem, uri: str) -> int:
    found = _listed(files, "commits", uri)
    batches = [int(info.base_name) for info in found if info.base_name.isdigit()]
    if not batches:
        raise InvalidInput(
            f"{uri} has no committed batch, so it is not the checkpoint folder of a query, or there is "
            "nothing to continue"
        )
    return max(batches)


def _offsets(text: str, stream: str, uri: str) -> tuple[int, dict[str, Any]]:
    """Return the number and the offsets of the source that reads a stream."""
    found: list[tuple[int, dict[str, Any]]] = []
    for number, line in enumerate(text.splitlines()[2:]):  # after the version and the metadata of the batch
        try:
            offsets = json.loads(line)
        except ValueError:
            continue  # of a source that is no JSON, or of none
        metadata = offsets.get("metadata") if isinstance(offsets, dict) else None
        if isinstance(metadata, dict) and str(metadata.get("streamName")).rpartition("/")[2] == stream:
            found.append((number, offsets))
    if len(found) != 1:
        raise InvalidInput(
            f"{uri}: {len(found)} sources of the query read the stream {stream}, instead of one. Correct the "
            "folder or the stream"
        )
    return found[0]


def _listed(files: pyarrow.fs.FileSystem, path: str, uri: str) -> list[pyarrow.fs.FileInfo]:
    try:
        return files_in(files, path)
    except OSError as error:
        raise InvalidInput(f"{uri}/{path} cannot be listed: {error}") from None


def _read(files: pyarrow.fs.FileSystem, path: str, uri: str) -> str:
    try:
        with files.open_input_file(path) as file:
            content: bytes = file.read()
        return content.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{uri}/{path} cannot be read: {error}") from None


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path} cannot be read: {error}; correct the path or file") from None


def _json(text: str, path: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise InvalidInput(f"{path} is no JSON: {error}; correct it") from None
