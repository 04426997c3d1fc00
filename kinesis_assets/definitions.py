"""The deployed project: every stream that has a folder in defs/."""

from pathlib import Path

import dagster as dg


@dg.definitions
def defs() -> dg.Definitions:
    """The streams of `defs/<stream>/defs.yaml`, each run in the process that Dagster starts for it."""
    streams = dg.load_from_defs_folder(path_within_project=Path(__file__).parent)
    return dg.Definitions.merge(streams, dg.Definitions(executor=dg.in_process_executor))
