"""The definitions of the deployed project: one stream for each folder in `defs/`."""

from pathlib import Path

import dagster as dg


@dg.definitions
def defs() -> dg.Definitions:
    """Load the streams of `defs/<stream>/defs.yaml`. A run's steps execute in the run's own process."""
    streams = dg.load_from_defs_folder(path_within_project=Path(__file__).parent)
    return dg.Definitions.merge(streams, dg.Definitions(executor=dg.in_process_executor))
