"""The options of `dg scaffold defs` are refused like the settings of a YAML."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from kinesis_assets.dagster.components.stream_component import StreamScaffolder


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"stream": "page views", "table": "clicks"}, "invalid stream name 'page views'"),
        ({"stream": "clicks"}, "table is missing"),
        ({"stream": "clicks", "table": "clicks", "max_records": "0"}, "max_records must be above 0"),
        ({"stream": "clicks", "table": "clicks", "on_data_loss": "ignore"}, "'fail' or 'continue'"),
    ],
    ids=["invalid", "missing", "out of bounds", "not a choice"],
)
def test_options_that_do_not_fit_are_refused(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        StreamScaffolder.get_scaffold_params()(**options)


def test_no_options_leave_the_yaml_to_be_filled_in() -> None:
    assert StreamScaffolder.get_scaffold_params()().attributes() == {}
