"""`infer`: propose the YAML of a typed table."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003  # in the type of a function
from typing import TYPE_CHECKING, Any

import click
import yaml

from kinesis_assets.cli.options import project_of, stream_options
from kinesis_assets.errors import without_secrets

if TYPE_CHECKING:
    from kinesis_assets.table.snapshot import TableSnapshot

_MAX_FILES = 16
_MAX_BYTES = 64 << 20
"""The limit of a sample, in bytes of payload."""

_BATCH_ROWS = 1024


@click.command()
@stream_options()
@click.option(
    "--sample",
    type=click.IntRange(1, 100_000),
    default=1000,
    show_default=True,
    help="Maximum number of records to read, from the newest files of the table.",
)
def infer(*, sample: int, **stream: Any) -> None:
    """Propose the YAML of a typed table, or of routes.

    It is made from a sample of the raw table. Recognized are gzip, zlib, zstd and snappy; several documents
    in a record; JSON, CSV and TSV; changes of DynamoDB, AWS DMS and Debezium; Avro object containers; and
    records of the Glue Schema Registry and of Confluent's, for which you give the schema. If the value of a
    field decides which other fields there are, each value gets a table. A field with values of different
    types becomes VARIANT, and its column has their JSON text. Comments have the evidence, and what does not
    fit, with counts.
    """
    from kinesis_assets.decoders.proposal import propose

    project = project_of(**stream)
    with project.open_stream() as opened:
        table = opened.settings.table
        snapshot = opened.table.snapshot()
        snapshot.refuse_other_stream(opened.client.describe().identity)
        snapshot.refuse_unreadable()
        payloads = _sampled_payloads(snapshot, sample)
    proposal = propose(payloads, project.stream, stream["stream"], table)
    click.echo("".join(f"# {without_secrets(line)}\n" for line in proposal.comments), nl=False)
    content = {"type": f"kinesis_assets.{proposal.type}", "attributes": _in_lines(proposal.attributes)}
    text = yaml.dump(content, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)
    click.echo(text, nl=False)


def _sampled_payloads(snapshot: TableSnapshot, count: int) -> list[bytes]:
    """Return payloads, about the same number from each of the newest files, without damaged aggregates."""
    import pyarrow.parquet as pq

    files = sorted(
        snapshot.data_files(["batch_id"]), key=lambda each: each.greatest["batch_id"] or 0, reverse=True
    )[:_MAX_FILES]
    filesystem = snapshot.folder.open()
    found: list[bytes] = []
    size = 0
    for number, file in enumerate(files):
        if len(found) == count or size > _MAX_BYTES:
            break
        share = -(-(count - len(found)) // (len(files) - number))
        through = len(found) + share
        with filesystem.open_input_file(file.path) as opened:
            batches = pq.ParquetFile(opened).iter_batches(min(share, _BATCH_ROWS), columns=["data", "error"])
            for row in (row for batch in batches for row in batch.to_pylist()):
                if row["error"] is None:
                    found.append(row["data"])
                    size += len(row["data"])
                if len(found) == through or size > _MAX_BYTES:
                    break
    return found


def _in_lines(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with each schema, also of routes, as text that YAML shows line by line."""
    shown = dict(attributes)
    if isinstance(schema := shown.get("schema"), str):
        shown["schema"] = _Lines(schema)
    if "routes" in shown:
        shown["routes"] = [*map(_in_lines, shown["routes"])]
    return shown


class _Lines(str):
    """Text that YAML shows line by line."""

    __slots__ = ()


class _Dumper(yaml.SafeDumper):  # type: ignore[misc]  # PyYAML has no types
    pass


_Dumper.add_representer(
    _Lines, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", str(text), style="|")
)
