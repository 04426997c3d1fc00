"""`infer`: propose the YAML of a typed table."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003  # in the type of a function
from typing import Any

import click
import yaml

from kinesis_assets.cli.options import project_of, stream_options
from kinesis_assets.errors import without_secrets


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
    from kinesis_assets.decoders.proposal import propose  # noqa: PLC0415  # each command imports what it needs
    from kinesis_assets.derive.sample import sample_payloads  # noqa: PLC0415  # as above

    project = project_of(**stream)
    with project.open_stream() as opened:
        table = opened.settings.table
        snapshot = opened.table.snapshot()
        snapshot.refuse_other_stream(opened.client.describe().identity)
        payloads = sample_payloads(opened.table, snapshot, sample)
    proposal = propose(payloads, project.stream, stream["stream"], table)
    click.echo("".join(f"# {without_secrets(line)}\n" for line in proposal.comments), nl=False)
    content = {"type": f"kinesis_assets.{proposal.type}", "attributes": _in_lines(proposal.attributes)}
    click.echo(_dump(content), nl=False)


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


def _dump(content: dict[str, Any]) -> str:
    return str(yaml.dump(content, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110))
