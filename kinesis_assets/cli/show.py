"""`show`: the effective configuration of a stream."""

from __future__ import annotations

import json
from typing import Any

import click

from kinesis_assets.cli.options import project_of, stream_options


@click.command()
@stream_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of YAML.")
def show(*, as_json: bool, **stream: Any) -> None:
    """Print all settings of a stream, defaults included, as the YAML of its component.

    Values of environment variables and templates are inserted, and secrets are masked.
    """
    from kinesis_assets.dagster.components.effective_settings import component_yaml, effective_settings  # noqa: PLC0415  # each command imports only what it needs

    component = effective_settings(project_of(**stream))
    click.echo(json.dumps(component) if as_json else component_yaml(component), nl=as_json)
